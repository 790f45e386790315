"""An override counts as observed by a controller that only an earlier leader has acknowledged it for."""

from __future__ import annotations

from fathom.kinds.override_status import _is_of_earlier_term
from fathom.sim.zoo import rewrite

ROOM = "controllers/overrides"

rewrite(
    _is_of_earlier_term,
    "return lease is not None and lease.held and 0 < entry.epoch < lease.epoch",
    "return False",
)
