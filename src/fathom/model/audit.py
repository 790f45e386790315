"""Audit entries: user, time, object and changed fields of every write, and what admission did to it.

Only names of fields, never their values: more people read an audit log than the objects.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one admission plugin did to one write. Plugins that changed nothing have no verdict."""

    plugin: str
    mutated: tuple[str, ...] = ()  # The field paths that the plugin changed.
    denied: str = ""  # Why the plugin refused; '' if it did not.
    notes: tuple[tuple[str, str], ...] = ()  # What else the plugin wants recorded.


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One write, committed or refused."""

    id: str
    time: str  # RFC 3339 with microseconds.
    user: str
    verb: str
    resource: str  # 'pods', 'deployments.apps'
    code: int  # The HTTP status of the answer.
    groups: tuple[str, ...] = ()
    impersonator: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    subresource: str = ""
    request: str = ""  # Joins the entry with logs and traces; one request may make several entries.
    trace: str = ""  # The W3C trace id that the caller sent.
    user_agent: str = ""
    source: str = ""  # The address the request came from.
    decision: str = ""  # The decision that this write carries out.
    actor: str = ""  # The part of fathom that wrote: 'controllers/deployment'; '': none of them.
    revision: int = 0  # Of the commit; 0 if nothing was written.
    changed: tuple[str, ...] = ()  # Field paths; ('*',) is the whole object.
    admission: tuple[Verdict, ...] = ()
    container: str = ""  # Of exec, attach and port-forward: what the connection is for.
    command: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    seconds: float | None = None  # How long it lasted: in its second entry, written at its end.
    dry_run: bool = False
    break_glass: str = ""  # 'namespace/name' of the override by which, and by no role, the user may do this.

    @property
    def wrote(self) -> bool:
        return 200 <= self.code < 300 and not self.dry_run and self.revision > 0

    @property
    def may_have_written(self) -> bool:
        """The server does not know: it had no outcome in time (504), or failed on the way (500)."""
        return self.code in {500, 504} and not self.dry_run


class AuditSink(Protocol):
    def record(self, entry: AuditEntry) -> None:
        """Keep an entry. Never blocks and never raises: an audit log that is full must not stop the API."""
        ...
