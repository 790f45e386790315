"""14, in the scheduler itself. What is reserved for a pod that others make room for is named after the
attempt and not after what it is for: whoever repeats a create whose answer was lost does not meet the first
one."""

from __future__ import annotations

import asyncio

from fathom.kinds.reservation import Intent
from fathom.schedule import reserving
from fathom.sim.zoo import put_back

SCENARIOS = ("reserved-and-not-told",)
BREAKS = "at most one active reservation per intent and generation"


def another_each_time(intent: Intent) -> str:
    """As a generated name is."""
    return f"{intent.workload}-{intent.slot}-{round(asyncio.get_running_loop().time() * 1e6):x}"


put_back(reserving, "reservation_name", another_each_time)
