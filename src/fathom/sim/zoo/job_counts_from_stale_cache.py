"""6, in the real controller. A new leader counts from a view of pods that is older than the count it adds to:
pods that were counted and released are counted again (kubernetes#105200)."""

from __future__ import annotations

from fathom.control.plan import OWN_WRITES
from fathom.controllers.job import plan
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.sim.zoo import put_back

SCENARIOS = ("a-job-with-a-deaf-successor", "real-jobs-seen-late")
BREAKS = "succeeded ≤ distinct UIDs"

put_back(LeaderMinRevision, "needs", property(lambda self: ()))
put_back(plan, "NEEDS", (OWN_WRITES,))
