"""40. Who would adopt is not asked whether it is still there: an owner that let its pods go has them again in
an old view, and the collector takes them."""

from __future__ import annotations

from typing import Any

from fathom.controllers.replicaset import controller
from fathom.sim.zoo import put_back

SCENARIOS = ("what-the-heir-has-not-heard",)
BREAKS = "who was let go lives on"


async def of_course(*_: Any) -> bool:
    return True


put_back(controller, "may_adopt", of_course)
