"""30. A pod that is being deleted still counts as one that is there: nobody takes its place for as long as it
takes to go."""

from __future__ import annotations

from fathom.controllers.pod_states import has_ended
from fathom.controllers.replicaset import plan
from fathom.sim.zoo import put_back

SCENARIOS = ("drains",)
BREAKS = "statuses match the objects when settled"


put_back(plan, "is_active", lambda pod: not has_ended(pod))
