"""31. An eviction looks whether its budget allows one, and takes none from it: two at a time both go."""

from __future__ import annotations

from fathom.api.subresources import eviction
from fathom.model.objects import Obj
from fathom.sim.zoo import put_back

SCENARIOS = ("drains",)
BREAKS = "no eviction beyond its budget"

_right = eviction.take_disruption


def looks_only(budget: Obj, pod: str, *, now: str) -> Obj:
    _right(budget, pod, now=now)
    return budget


put_back(eviction, "take_disruption", looks_only)
