"""The scheduler does not renew a reservation that it still needs."""

from __future__ import annotations

from fathom.schedule.loop.reservations import is_due
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    is_due,
    "return 0 < expires_ns < now_ns + RENEWED_S * SECOND_NS",
    "return False",
)
