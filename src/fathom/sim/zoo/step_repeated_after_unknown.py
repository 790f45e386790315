"""After an unknown outcome a runbook's step is looked for by name, not by identity: an object that somebody
else made meanwhile under the same name is deleted too."""

from __future__ import annotations

from typing import Any

from fathom.sim.zoo import put_back
from fathom.steer.actions import Actions

SCENARIOS = ("half-done-runbook",)
BREAKS = "each step of a run is done at most once"


def by_name(self: Any, found: Any, work: Any) -> bool:
    return found is None


put_back(Actions, "_is_gone", by_name)
