"""The garbage collector takes an owner of a kind that it does not know for one that is gone."""

from __future__ import annotations

from fathom.controllers.housekeeping.garbage_collector import Collector
from fathom.sim.zoo import rewrite

ROOM = "controllers/housekeeping"

rewrite(
    Collector._look_up,
    ("        if ref is None:\n            return None\n"),
    ('        if ref is None:\n            return Owner(str(reference["uid"]), exists=False)\n'),
)
