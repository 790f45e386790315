"""49. The API server binds, and creates pods with their node, without a look at overrides: a cordon holds
only for schedulers that know of it (a foreign binding to a cordoned node was accepted)."""

from __future__ import annotations

from fathom.api.binding import checks, created_with_node
from fathom.sim.zoo import put_back

SCENARIOS = ("overrides-forbid",)
BREAKS = "no write that an override forbids"

put_back(checks, "judge_cordons", lambda case: None)
put_back(created_with_node, "judge_cordons", lambda case: None)
