"""When a cache received which revision, of kinds that steer decisions: for timelines, not for decisions.

The tape has this for every kind, but is read after an incident. These few are kept in memory, for whoever
asks meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from fathom.cache.indexed import Change
from fathom.model.objects import metadata

# They change seldom, and a decision that had not received a change of one looks wrong afterwards.
STEERING_KINDS = frozenset(
    {"CapacityClass", "ResourceQuota", "SchedulerOverride", "SchedulingPolicy", "TenantQuota"}
)
RECEIVED_MAX = 256  # Of each kind, the newest.


class ReceivedRevision(msgspec.Struct, frozen=True):
    revision: int
    at_s: float  # On the loop's clock.


class ReceivedRevisions:
    def __init__(self) -> None:
        self._by_kind: dict[str, deque[ReceivedRevision]] = {}

    def note(self, kind: str, changes: Iterable[Change], *, now_s: float) -> None:
        """Deletes are left out: a cache knows only the last revision of what is gone."""
        received = self._by_kind.setdefault(kind, deque(maxlen=RECEIVED_MAX))
        for _, after in changes:
            if after is not None:
                received.append(ReceivedRevision(int(metadata(after).get("resourceVersion") or 0), now_s))

    @property
    def by_kind(self) -> Mapping[str, tuple[ReceivedRevision, ...]]:
        return {kind: tuple(received) for kind, received in self._by_kind.items()}
