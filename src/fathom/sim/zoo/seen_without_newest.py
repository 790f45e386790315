"""A decision records the revision up to which its view is surely complete, but not the newest change in it:
the object that it was decided by seems not to have been seen."""

from __future__ import annotations

from fathom.cache.snapshot import Snapshot
from fathom.model.decision import SeenVersions
from fathom.sim.zoo import put_back

SCENARIOS = ("scheduling", "replicas")
BREAKS = "a decision's records are true"


def only_what_is_complete(self: Snapshot, kind: str) -> SeenVersions:
    return SeenVersions(self.revision(kind), round(1000 * min(self.age(kind), 1e6)))


put_back(Snapshot, "seen", only_what_is_complete)
