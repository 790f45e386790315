"""13. The API server commits a binding without asking the ledger whether the node still has room: a scheduler
with a stale cache overfills it (the lesson on staleness)."""

from __future__ import annotations

from fathom.api.binding import checks
from fathom.sim.zoo import put_back

SCENARIOS = ("two-schedulers-stale-cache",)
BREAKS = "no node or quota over its limit"

put_back(checks, "lacks_room", lambda *args, **kwargs: None)
