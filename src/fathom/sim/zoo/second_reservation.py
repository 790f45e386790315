"""14. A retry makes a second reservation: its name follows from the attempt and not from what it is for, so
that whoever repeats a create whose answer was lost does not meet the first one (the lesson on replay, seed
82219)."""

from __future__ import annotations

import asyncio

from fathom.sim.standins import reserver
from fathom.sim.zoo import put_back

SCENARIOS = ("reservations-handed-over",)
BREAKS = "at most one active reservation per intent and generation"


def another_each_time(claim: reserver.Claim) -> str:
    """As a generated name is."""
    return f"{claim.workload}-{claim.slot}-{round(asyncio.get_running_loop().time() * 1e6):x}"


put_back(reserver, "reservation_name", another_each_time)
