"""33. A node that is heard again keeps the taint that it got while it was silent: no pod is placed there any
more."""

from __future__ import annotations

from typing import Any

from fathom.controllers.node_health import plan
from fathom.controllers.node_health.evidence import NodeState
from fathom.model.objects import Obj, lookup
from fathom.model.well_known import SUSPECT_TAINT
from fathom.sim.zoo import put_back

SCENARIOS = ("a-node-comes-back",)
BREAKS = "statuses match the objects when settled"

_right = plan.wanted_taints


def and_those_of_before(node: Obj, state: NodeState, **more: Any) -> list[Obj]:
    wanted = _right(node, state, **more)
    before = [taint for taint in lookup(node, "spec", "taints") or () if taint not in wanted]
    return wanted + [taint for taint in before if taint.get("key") == SUSPECT_TAINT]


put_back(plan, "wanted_taints", and_those_of_before)
