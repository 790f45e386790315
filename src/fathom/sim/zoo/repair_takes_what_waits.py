"""38. Repair takes a pod without a node for one that is gone: it releases the reservation of a waiting pod
while its victims are still leaving."""

from __future__ import annotations

from fathom.controllers.repair import plan
from fathom.model.objects import Obj, lookup
from fathom.sim.zoo import put_back

SCENARIOS = ("preemption", "preemption-handed-over")
BREAKS = "a waiting pod keeps its reservation"


def is_nowhere(reservation: Obj, pod: Obj | None) -> bool:
    return pod is None or not lookup(pod, "spec", "nodeName")


put_back(plan, "_is_orphaned", is_nowhere)
