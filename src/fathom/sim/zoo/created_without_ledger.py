"""45. The API server accepts a pod that names its node when it is created, whether or not the node has room:
it asks the ledger only for bindings."""

from __future__ import annotations

from fathom.api.binding import placing
from fathom.sim.zoo import put_back

SCENARIOS = ("pods-name-their-nodes",)
BREAKS = "no node or quota over its limit"

put_back(placing, "arrival_of", lambda *args: None)
