"""10. A child's name is drawn with each try: whoever repeats a create that was carried out, but never
answered, makes another one (vsphere-csi#2507)."""

from __future__ import annotations

import asyncio
from typing import Any

from fathom.sim.standins import replicator
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas",)
BREAKS = "one pod per slot"

right = replicator.pod_name


def another_each_time(owner: Any, slot: int, mark: str) -> str:
    return f"{right(owner, slot, mark)}-{round(asyncio.get_running_loop().time() * 1e6):x}"


put_back(replicator, "pod_name", another_each_time)
