"""36. The API server binds a pod that is being deleted: a scheduler that has not heard of the deletion starts
a pod that should end."""

from __future__ import annotations

from fathom.api.binding import checks
from fathom.sim.zoo import put_back

SCENARIOS = ("refused-from-an-old-view",)
BREAKS = "a pod is bound only where it may run"


put_back(checks, "is_deleting", lambda pod: False)
