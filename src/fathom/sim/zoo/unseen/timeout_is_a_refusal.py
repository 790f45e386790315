"""An answer that does not tell whether the write happened (504, 503) counts as a refusal."""

from __future__ import annotations

from fathom.client.outcomes import outcome_of
from fathom.sim.zoo import rewrite

ROOM = "client"

rewrite(
    outcome_of,
    "if status in AMBIGUOUS:",
    "if status in {0, 408}:",
)
