"""40. Who would adopt is not asked whether it is still there: an owner that let its pods go has them again in
an old view, and the collector takes them."""

from __future__ import annotations

from fathom.controllers.replicasets import ReplicaSets
from fathom.model.objects import Key
from fathom.sim.zoo import put_back

SCENARIOS = ("what-the-heir-has-not-heard",)
BREAKS = "who was let go lives on"


async def of_course(self: ReplicaSets, key: Key) -> bool:
    return True


put_back(ReplicaSets, "_may_adopt", of_course)
