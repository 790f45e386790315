"""A step of the autoscaler whose answer was lost does not count in its policies: the next one comes too
soon."""

from __future__ import annotations

from fathom.controllers.autoscaler.controller import _continued
from fathom.sim.zoo import rewrite

ROOM = "controllers/autoscaler"
NOT_FOUND_BECAUSE = (
    "It takes a scaling request that arrives after its sender has looked for its effect. The autoscaler's "
    "scenarios look for such steps, and none of some eighty runs has come to that."
)

rewrite(
    _continued,
    "return history.unsure(size) if failed else",
    "return history if failed else",
)
