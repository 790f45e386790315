"""4. Expired expectations count as satisfied: a controller that has waited long enough to see its own writes
goes on without them, and creates too many children (kubernetes#129795)."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.cache.caches import Caches
from fathom.cache.freshness import Unmet, unmet
from fathom.cache.needs import Need
from fathom.cache.own_writes import WriteLog
from fathom.cache.snapshot import Snapshot
from fathom.control import loop
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas-seen-late",)
BREAKS = "children ≤ desired + surge"

EXPIRED_S = 0.5  # Sooner than the loop would ask the server for its revision.


def or_expired(needs: Sequence[Need], view: Snapshot, written: WriteLog, *, now_s: float) -> list[Unmet]:
    lacking = unmet(needs, view, written, now_s=now_s)
    since_s: dict[object, float] = vars(written).setdefault("since_s", {})
    if not lacking:
        since_s.pop(needs, None)
    elif now_s - since_s.setdefault(needs, now_s) > EXPIRED_S:
        return []
    return lacking


put_back(loop, "unmet", or_expired)
put_back(Caches, "apply_write", lambda self, kind, obj: None)  # Expectations hold no objects.
