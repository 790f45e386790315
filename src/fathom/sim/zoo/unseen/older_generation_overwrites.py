"""A condition about an older generation overwrites one about a newer generation."""

from __future__ import annotations

from fathom.model.conditions import set_condition
from fathom.sim.zoo import rewrite

ROOM = "model"
WITHOUT_EFFECT = (
    "Who writes conditions names the revision that it has read, which an invariant checks, so it has "
    "seen the generation that the others had seen. An invariant says the same of the conditions "
    "themselves: it would show the first writer that does not."
)

rewrite(
    set_condition,
    ('if before is not None and (observed_generation or 0) < (before.get("observedGeneration") or 0):'),
    "if False:",
)
