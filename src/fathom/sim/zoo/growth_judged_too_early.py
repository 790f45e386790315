"""51. A write that makes a workload grow is judged, but its commit does not expect that the overrides are
still the same: one that pauses expansion, committed in between, comes too late."""

from __future__ import annotations

from fathom.api.admission import expansion
from fathom.api.admission.attempt import Charge
from fathom.sim.zoo import put_back

SCENARIOS = ("overrides-forbid",)
BREAKS = "no write that an override forbids"


def charge(plugin, attempt, view):  # type: ignore[no-untyped-def]
    judged = RIGHT(plugin, attempt, view)
    return tuple(Charge((), charge.writes) for charge in judged)


RIGHT = expansion.PausedExpansion.charge
put_back(expansion.PausedExpansion, "charge", charge)
