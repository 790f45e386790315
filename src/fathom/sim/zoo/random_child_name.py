"""10. A child gets a new random name with each try: a controller that repeats a create that was carried out,
but never answered, makes another child (vsphere-csi#2507)."""

from __future__ import annotations

import asyncio
from typing import Any

from fathom.control import ownership
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.controllers.replicaset import plan
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas-handed-over",)
BREAKS = "one pod per slot"

right = ownership.child_name


def another_each_time(owner: Any, slot: int) -> str:
    return f"{right(owner, slot)}-{round(asyncio.get_running_loop().time() * 1e6):x}"


put_back(plan, "child_name", another_each_time)
put_back(LeaderMinRevision, "needs", property(lambda self: ()))  # The next leader is as unsafe.
