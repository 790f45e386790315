"""9. "Equal, so nothing to do" is said against a cache that is behind, and nobody looks again when it catches
up (kubernetes#124547)."""

from __future__ import annotations

from fathom.control.watches import Related
from fathom.sim.standins.endpoints import ENDPOINTS, EndpointsCopier
from fathom.sim.zoo import put_back

SCENARIOS = ("endpoints-seen-late",)
BREAKS = "what is said is so when settled"

put_back(EndpointsCopier, "watches", (*EndpointsCopier.watches[:2], Related(ENDPOINTS)))
