"""14. A retry makes a second reservation: the reservation's name follows from the attempt and not from its
intent, so a scheduler that repeats a create whose reply was lost does not meet the first one (the lesson on
replay, seed 82219)."""

from __future__ import annotations

import asyncio

from fathom.kinds.reservation import Intent
from fathom.schedule.loop import reservations
from fathom.sim.zoo import put_back

SCENARIOS = ("duplicate-reservation", "reserved-and-not-told")
BREAKS = "at most one active reservation per intent and generation"


def another_each_time(intent: Intent) -> str:
    """Like a generated name."""
    return f"{intent.workload}-{intent.slot}-{round(asyncio.get_running_loop().time() * 1e6):x}"


put_back(reservations, "reservation_name", another_each_time)
