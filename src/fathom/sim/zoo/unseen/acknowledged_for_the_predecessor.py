"""An acknowledgement of an earlier leader counts for its successor, whose cache may be older."""

from __future__ import annotations

from fathom.kinds.override_status import _is_current
from fathom.sim.zoo import rewrite

ROOM = "controllers/overrides"

rewrite(
    _is_current,
    "        and entry.epoch == by.epoch\n",
    "",
)
