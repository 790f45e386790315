"""The commit of a binding does not expect the node as it was judged: a node that is cordoned, shrunk or
deleted meanwhile gets the pod."""

from __future__ import annotations

from fathom.api.binding.checks import judge
from fathom.sim.zoo import rewrite

ROOM = "api/binding"

rewrite(
    judge,
    "return PlacedPod(placed, Delta(case.released, wanted), tuple(case.expects), case.taken)",
    "return PlacedPod(placed, Delta(case.released, wanted), tuple(case.expects[1:]), case.taken)",
)
