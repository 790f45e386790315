"""A drain counts a replica that it is just evicting as one that stays: the last two go at once."""

from __future__ import annotations

from fathom.controllers.overrides.plan_evictions import _stays
from fathom.sim.zoo import rewrite

ROOM = "controllers/overrides"

rewrite(
    _stays,
    "        and uid_of(other) not in chosen\n",
    "",
)
