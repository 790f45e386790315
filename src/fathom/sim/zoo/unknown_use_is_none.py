"""32. An autoscaler takes a pod of which it knows nothing for one that uses nothing: when metrics are away,
it scales to its least."""

from __future__ import annotations

from fathom.controllers import usage
from fathom.sim.zoo import put_back

SCENARIOS = ("autoscaler-told-nothing",)
BREAKS = "the story's own assertion"

_right = usage._use


def or_nothing(sample: usage.Sample | None, resource: str, container: str) -> int | None:
    return _right(sample, resource, container) or 0


put_back(usage, "_use", or_nothing)
