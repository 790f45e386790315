"""30. The ReplicaSet controller counts a pod that is being deleted as active: nothing replaces it until it is
gone."""

from __future__ import annotations

from fathom.controllers.pod_states import has_ended
from fathom.controllers.replicaset import plan
from fathom.sim.zoo import put_back

SCENARIOS = ("drains",)
BREAKS = "statuses match the objects when settled"


put_back(plan, "is_active", lambda pod: not has_ended(pod))
