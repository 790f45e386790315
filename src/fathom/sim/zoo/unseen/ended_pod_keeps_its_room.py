"""The ledger does not notice that a pod has ended: its room is never given back."""

from __future__ import annotations

from fathom.api.ledger.delta import _same
from fathom.sim.zoo import rewrite

ROOM = "api/ledger"

rewrite(
    _same,
    ("if is_terminal(old) != is_terminal(new):\n        return False\n"),
    ("if False:\n        return False\n"),
)
