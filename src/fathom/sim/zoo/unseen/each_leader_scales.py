"""A new leader does not count the step that the leader before it has just taken: together they scale
faster than the policy allows."""

from __future__ import annotations

from fathom.controllers.autoscaler.plan import _stepped_unseen
from fathom.sim.zoo import rewrite

ROOM = "controllers/autoscaler"

rewrite(
    _stepped_unseen,
    "if not last or last in facts.history.noted or facts.term_s >= period_s:",
    "if True:",
)
