"""The garbage collector lets an owner go that leaves its dependents behind before its view has all of them:
one that it has not heard of is deleted afterwards."""

from __future__ import annotations

from fathom.controllers.housekeeping.garbage_collector import Collector
from fathom.sim.zoo import rewrite

ROOM = "controllers/housekeeping"

rewrite(
    Collector._as_owner,
    "        if not knows(self._view, ref.resource, obj):\n            return\n",
    "",
)
