"""10. A child's name is drawn with each try: whoever repeats a create that was carried out, but never
answered, makes another one (vsphere-csi#2507)."""

from __future__ import annotations

import asyncio
from typing import Any

from fathom.sim.standins import replicator
from fathom.sim.standins.term import Floor
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas-handed-over",)
BREAKS = "one pod per slot"

right = replicator.pod_name


def another_each_time(owner: Any, slot: int, mark: str) -> str:
    return f"{right(owner, slot, mark)}-{round(asyncio.get_running_loop().time() * 1e6):x}"


async def any_view(self: Any) -> int:
    """Names that are drawn are as unsafe in the next leader's hands."""
    return 0


put_back(replicator, "pod_name", another_each_time)
put_back(Floor, "revision", any_view)
