"""48. A controller writes a field that it does not declare: it marks the pods that it counted. Nobody who
asks which actors can change a pod's annotations is told of it."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.control.plan import Patch, Plan, target
from fathom.controllers.pod_states import is_active
from fathom.controllers.replicaset import controller
from fathom.controllers.replicaset.plan import plan_replicas
from fathom.model.objects import metadata
from fathom.sim.zoo import put_back

SCENARIOS = ("rollouts",)
BREAKS = "every observed write is declared"
MARK = "example.com/counted"

right = plan_replicas


def with_marks(owner: Any, facts: Any, *, now: str) -> Plan:
    plan = right(owner, facts, now=now)
    unmarked = [
        pod
        for pod in facts.claims.mine
        if is_active(pod) and MARK not in (metadata(pod).get("annotations") or {})
    ]
    marks = tuple(
        Patch(target("Pod", pod), {"metadata": {"annotations": {MARK: "true"}}}) for pod in unmarked[:1]
    )
    return plan if plan.deletes else msgspec.structs.replace(plan, patches=(*plan.patches, *marks))


put_back(controller, "plan_replicas", with_marks)
