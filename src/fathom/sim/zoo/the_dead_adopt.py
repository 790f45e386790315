"""40. A controller adopts pods without checking that the owner still exists: from an old view, a deleted
owner adopts the pods that it had released, and the garbage collector deletes them."""

from __future__ import annotations

from typing import Any

from fathom.controllers.replicaset import controller
from fathom.sim.zoo import put_back

SCENARIOS = ("what-a-new-leader-has-not-heard",)
BREAKS = "pods that their owner released live on"


async def of_course(*_: Any) -> bool:
    return True


put_back(controller, "may_adopt", of_course)
