"""A new leader scales down at once: it does not hold the present size for the window."""

from __future__ import annotations

from fathom.controllers.autoscaler.controller import Autoscalers
from fathom.sim.zoo import rewrite

ROOM = "controllers/autoscaler"

rewrite(
    Autoscalers._history,
    "return History().with_recommendation(now_s, size)",
    "return History()",
)
