"""9, in the real controllers. The endpoints controller finds that a stale cache equals what it wants, writes
nothing, and does not look again when the cache catches up (kubernetes#124547)."""

from __future__ import annotations

from fathom.control.watches import Related
from fathom.controllers.endpoints.controller import ENDPOINTS, EndpointsOfServices
from fathom.sim.zoo import put_back

SCENARIOS = ("endpoints-with-a-deaf-successor", "real-endpoints-seen-late")
BREAKS = "statuses match the objects when settled"

put_back(EndpointsOfServices, "watches", (*EndpointsOfServices.watches[:2], Related(ENDPOINTS)))
