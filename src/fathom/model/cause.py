"""What woke a key: a change of an object, a timer, a retry, a decision. Every decision records its cause."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["event", "timer", "retry", "decision", "resync", "start", "freshness", "unstated"]
# Events of a watch, and of an agent: a container started or ended, a probe changed its verdict.
ADDED, CHANGED, DELETED, RUNTIME = "added", "changed", "deleted", "runtime"


class WakeCause(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a change: which object, at which revision, so that a reader finds the write itself. Of the others:
    `detail` says which timer, or what failed. `detail` is for people; programs read the other fields."""

    kind: Kind = "unstated"
    detail: str = ""
    resource: str = ""  # 'pods', 'deployments.apps'
    namespace: str = ""
    name: str = ""
    revision: int = 0  # Of the change; of a deleted object, its last.
    decision: str = ""  # Another decision, whose outcome this one goes on from.
    event: str = ""  # What happened, in one word: 'added', 'deleted', 'PodGone'. It names no object.
    gone: bool = False  # The object was deleted, and `revision` is its last one.

    @property
    def text(self) -> str:
        """'pods default/web-1 added at 4711'"""
        path = "/".join(part for part in (self.namespace, self.name) if part)
        at = f"at {self.revision}" if self.revision else ""
        after = f"after decision {self.decision}" if self.decision else ""
        return " ".join(part for part in (self.resource, path, self.event, self.detail, at, after) if part)


UNSTATED = WakeCause()
