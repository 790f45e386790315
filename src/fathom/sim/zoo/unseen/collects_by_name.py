"""The garbage collector's delete names no UID: an object that takes the name meanwhile is deleted."""

from __future__ import annotations

from fathom.controllers.housekeeping.garbage_collector import Collector
from fathom.sim.zoo import rewrite

ROOM = "controllers/housekeeping"

rewrite(
    Collector._delete,
    'options = {"propagationPolicy": policy, "preconditions": preconditions}',
    'options = {"propagationPolicy": policy}',
)
