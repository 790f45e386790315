"""The end of an override is proven from caches that have not reached it: a placement that came last is
missed."""

from __future__ import annotations

from fathom.controllers.overrides.plan import _plan_end
from fathom.sim.zoo import rewrite

ROOM = "controllers/overrides"

rewrite(
    _plan_end,
    'if facts.seen_revision < int(metadata(obj).get("resourceVersion") or 0):',
    "if False:",
)
