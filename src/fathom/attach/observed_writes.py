"""Writes that an observer sees, as audit entries: which fields changed, and who says to have written them.

A foreign cluster's audit log is rarely readable. Its objects say who wrote which field:
`metadata.managedFields` names a manager, which is a program and no user. Where they say nothing, the writer
is `unknown`. Pure.
"""

from __future__ import annotations

from typing import Any

from fathom.model.audit import AuditEntry
from fathom.model.fields import changed_paths
from fathom.model.objects import Obj, key_of, metadata, uid_of
from fathom.model.times import moment_ns

UNKNOWN = "unknown"
PATHS_MAX = 64  # As in `api/writing.py`: beyond it, the whole parent.
OBSERVED = "seen by fathom attach"
# Changes that say nothing: they come by themselves, every few seconds, for every object of their kind.
HEARTBEATS = frozenset({"leases.coordination.k8s.io"})


def writer_of(old: Obj | None, new: Obj | None) -> tuple[str, str]:
    """The manager of the newest managedFields entry that `old` does not have, and its subresource."""
    before = metadata(old).get("managedFields") or [] if old is not None else []
    entries = [entry for entry in _managed(new) if entry not in before]
    if not entries:
        return UNKNOWN, ""
    newest = max(entries, key=lambda entry: moment_ns(entry.get("time")) or 0)
    return str(newest.get("manager") or UNKNOWN), str(newest.get("subresource") or "")


def observed_write(
    resource: str, old: Obj | None, new: Obj | None, *, id_: str, time: str, revision: int
) -> AuditEntry | None:
    """None: the change is a heartbeat, or concerns only versions and managers."""
    obj = new or old
    if obj is None or resource in HEARTBEATS:
        return None
    changed = ("*",) if old is None or new is None else changed_paths(old, new, limit=PATHS_MAX)
    if not changed:
        return None
    key, (writer, subresource) = key_of(obj), writer_of(old, new)
    return AuditEntry(
        id=id_,
        time=time,
        user=writer,
        verb="create" if old is None else "delete" if new is None else "update",
        resource=resource,
        code=200,
        namespace=key.namespace,
        name=key.name,
        uid=uid_of(obj),
        subresource=subresource,
        user_agent=OBSERVED,
        revision=revision,
        changed=changed,
    )


def copied(id_: str, time: str, revision: int) -> AuditEntry:
    """The first copy as a whole: about no object, so that nobody is told to have written one. It ties a time
    to the revision at which a question about the past finds the objects."""
    return AuditEntry(
        id=id_, time=time, user=OBSERVED, verb="create", resource="namespaces", code=200, revision=revision,
        user_agent=OBSERVED,
    )  # fmt: skip


def _managed(obj: Obj | None) -> list[dict[str, Any]]:
    entries = metadata(obj).get("managedFields") if obj is not None else None
    return [entry for entry in entries or [] if isinstance(entry, dict)]
