"""A pod whose override has ended gets its ordinary account, and the ledger still has it on the override's."""

from __future__ import annotations

from fathom.api.ledger import delta
from fathom.sim.zoo import rewrite

ROOM = "api/ledger"

rewrite(
    delta._same,
    "    same_account = lookup(new, *_ACCOUNT) == lookup(old, *_ACCOUNT)\n",
    "",
    "return same_account and (spec is before or spec == before)",
    "return bool(spec is before or spec == before)",
)
