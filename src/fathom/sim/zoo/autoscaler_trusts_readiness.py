"""15. The autoscaler counts ready pods only: while the scheduler lags they are too few for the load, so it
asks for more and more."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

from fathom.controllers.autoscaler import plan, plan_metrics
from fathom.sim.zoo import put_back

SCENARIOS = ("autoscaler-under-lag",)
BREAKS = "bounded growth"


def of_the_ready(pods: Any, goal: Any, ratio: Fraction, seen: plan_metrics.MeasuredUse) -> int:
    return ceil(ratio * seen.current)


put_back(plan, "blocker", lambda scene: None)
put_back(plan_metrics, "_replicas", of_the_ready)
