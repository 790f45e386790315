"""32. The autoscaler takes a pod without metrics for one that uses nothing: when metrics are missing, it
scales down to its minimum."""

from __future__ import annotations

from fathom.controllers.autoscaler import samples
from fathom.sim.zoo import put_back

SCENARIOS = ("autoscaler-told-nothing",)
BREAKS = "the scenario's own assertion"

_right = samples.use_of


def or_nothing(sample: samples.PodSample, measure: samples.Measure) -> int | None:
    return _right(sample, measure) or 0


put_back(samples, "use_of", or_nothing)
