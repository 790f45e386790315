"""50. An override acts on everything that its target names, wherever that is: its scope is stored and read by
nobody."""

from __future__ import annotations

from fathom.kinds import scheduler_override
from fathom.sim.zoo import put_back

SCENARIOS = ("overrides-forbid",)
BREAKS = "an override forbids nothing outside its scope"

put_back(scheduler_override, "scope_includes", lambda scope, labels: True)
