"""6, in the real controller. A new leader counts from a view of pods that is older than the number it adds
to: who was counted and let go is counted again (kubernetes#105200)."""

from __future__ import annotations

from fathom.control.plan import OWN_WRITES
from fathom.controllers import plan_jobs
from fathom.controllers.floor import Floor
from fathom.sim.zoo import put_back

SCENARIOS = ("a-job-with-a-deaf-successor", "real-jobs-seen-late")
BREAKS = "succeeded ≤ distinct UIDs"

put_back(Floor, "needs", property(lambda self: ()))
put_back(plan_jobs, "NEEDS", (OWN_WRITES,))
