"""A node that refused one binding is never tried again."""

from __future__ import annotations

from fathom.schedule.loop.refused_nodes import RefusedNodes
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    RefusedNodes.settle,
    "if heard_s > refused_s and reached >= revision",
    "if False",
)
