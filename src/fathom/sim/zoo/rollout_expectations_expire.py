"""4, in the real controllers. Expired expectations count as satisfied: a controller that has waited long
enough to see its own writes goes on without them (kubernetes#129795)."""

from __future__ import annotations

import fathom.sim.zoo.expectations_expire  # noqa: F401  # The same bug, in other scenarios.

SCENARIOS = ("rollouts-seen-late", "rollouts")
BREAKS = "children ≤ desired + surge"
