"""The brake counts nodes that are unreachable, and not those that are about to be: of many nodes that fall
silent together, the first is taken out of service before the brake notices that they are many."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.node_health import brake
from fathom.controllers.node_health.brake import BrakeLimits, BrakeState
from fathom.sim.zoo import put_back

SCENARIOS = ("failure-detector-too-aggressive",)
BREAKS = "the scenario's own assertion"

_right = brake._too_many


def only_those_who_are(where: str, nodes: Sequence[BrakeState], limits: BrakeLimits, *, late: bool) -> str:
    return _right(where, nodes, limits, late=False)


put_back(brake, "_too_many", only_those_who_are)
