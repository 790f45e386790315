"""The containers after a sidecar start although it has not started yet."""

from __future__ import annotations

from fathom.agent.plan import _lets_others_start
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    _lets_others_start,
    "return view.running and view.health.started",
    "return True",
)
