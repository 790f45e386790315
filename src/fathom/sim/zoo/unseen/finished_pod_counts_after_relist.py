"""A pod that has finished by the time a relist shows it bound still counts on its node."""

from __future__ import annotations

from fathom.schedule.loop.cache_updates import is_only_bound
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    is_only_bound,
    "    if is_terminal(after):\n        return False\n",
    "",
)
