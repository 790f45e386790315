"""30. A pod that is being deleted still counts as one that is there: nobody takes its place for as long as it
takes to go."""

from __future__ import annotations

from fathom.controllers import plan_replicasets
from fathom.controllers.podstates import has_ended
from fathom.sim.zoo import put_back

SCENARIOS = ("drains",)
BREAKS = "what is said is so when settled"


put_back(plan_replicasets, "is_active", lambda pod: not has_ended(pod))
