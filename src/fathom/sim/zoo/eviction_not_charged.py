"""31. An eviction checks that its disruption budget allows one more, but takes nothing from it: two
concurrent evictions are both allowed."""

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
