"""6. Finished pods are counted from a cache that is older than the number they are added to: the next leader
counts again what the last one has counted and let go (kubernetes#105200)."""

from __future__ import annotations

from fathom.sim.standins import finisher
from fathom.sim.zoo import put_back

SCENARIOS = ("jobs-seen-late",)
BREAKS = "succeeded ≤ distinct UIDs"

put_back(finisher, "too_old", lambda job, view, floor: False)
