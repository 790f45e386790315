"""13. A binding is committed as the scheduler's cache would have it: nobody asks the ledger whether the node
still has room (the lesson on staleness)."""

from __future__ import annotations

from fathom.api.binding import checks
from fathom.sim.zoo import put_back

SCENARIOS = ("two-schedulers-stale-cache",)
BREAKS = "no node or quota over its limit"

put_back(checks, "lacks_room", lambda *given, **named: None)
