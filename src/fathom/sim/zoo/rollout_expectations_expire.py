"""4, in the real controllers. Who has waited long enough for its own writes to show goes on without them
(kubernetes#129795)."""

from __future__ import annotations

import fathom.sim.zoo.expectations_expire  # noqa: F401  # The same bug, in other stories.

SCENARIOS = ("rollouts-seen-late", "rollouts")
BREAKS = "children ≤ desired + surge"
