"""A condition about an older generation overwrites one about a newer generation."""

from __future__ import annotations

from fathom.model.conditions import set_condition
from fathom.sim.zoo import rewrite

ROOM = "model"

rewrite(
    set_condition,
    ('if before is not None and (observed_generation or 0) < (before.get("observedGeneration") or 0):'),
    "if False:",
)
