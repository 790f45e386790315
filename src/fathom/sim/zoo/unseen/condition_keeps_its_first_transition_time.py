"""A condition whose status changes keeps the transition time that it got first."""

from __future__ import annotations

from fathom.model.conditions import set_condition
from fathom.sim.zoo import rewrite

ROOM = "model"

rewrite(
    set_condition,
    ' or before.get("status") != status or',
    " or",
)
