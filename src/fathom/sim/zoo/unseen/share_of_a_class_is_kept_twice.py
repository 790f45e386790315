"""All of a capacity class's share of a node is kept free beside what its pods use already: other pods are
refused although there is room."""

from __future__ import annotations

from fathom.api.ledger.room import _kept_for_others
from fathom.sim.zoo import rewrite

ROOM = "api/ledger"

rewrite(
    _kept_for_others,
    "max(0, amount - used.get(name, 0))",
    "amount",
)
