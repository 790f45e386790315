"""What an override leaves at its end is not looked at again without an event: an eviction that was refused
is not tried again, and a role that somebody removes is not noticed."""

from __future__ import annotations

from fathom.controllers.overrides.controller import Overrides
from fathom.sim.zoo import rewrite

ROOM = "controllers/overrides"

rewrite(
    Overrides._next_s,
    "return SOON_S if soon else RESIDUE_S if plan.why else None",
    "return SOON_S if soon else None",
)
