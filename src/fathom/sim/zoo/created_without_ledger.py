"""45. A pod that names its node when it is created gets it, whatever room is left there: only bindings are
judged."""

from __future__ import annotations

from fathom.api.binding import placing
from fathom.sim.zoo import put_back

SCENARIOS = ("pods-name-their-nodes",)
BREAKS = "no node or quota over its limit"

put_back(placing, "arrival_of", lambda *given: None)
