"""55. The end of an override makes the nodes that it cordoned schedulable, as a script would that cordoned
them: also a node that somebody else has cordoned meanwhile, for a reason of their own."""

from __future__ import annotations

import msgspec

from fathom.control.plan import Patch, target
from fathom.controllers.overrides import plan, plan_end
from fathom.controllers.overrides.controller import Overrides
from fathom.controllers.overrides.facts import OverrideFacts, nodes_of
from fathom.controllers.overrides.plan_end import Undoing
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.model.declared import Reads, Writes
from fathom.model.objects import lookup
from fathom.sim.zoo import put_back

SCENARIOS = ("others-cordons-and-marks",)
BREAKS = "a cordon is lifted only by who made it"


def uncordons(override: SchedulerOverride, facts: OverrideFacts) -> Undoing:
    undoing = RIGHT(override, facts)
    cordoned = [node for node in nodes_of(override, facts.nodes) if lookup(node, "spec", "unschedulable")]
    patches = tuple(Patch(target("Node", node), {"spec": {"unschedulable": None}}) for node in cordoned)
    return msgspec.structs.replace(undoing, patches=(*undoing.patches, *patches))


RIGHT = plan_end.plan_undoing
put_back(plan, "plan_undoing", uncordons)
put_back(Overrides, "reads", (*Overrides.reads, Reads("Node", ("spec.unschedulable",))))
put_back(Overrides, "writes", (*Overrides.writes, Writes("Node", ("spec.unschedulable",))))
