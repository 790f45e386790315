"""15. An autoscaler reacts to what is ready alone: while the scheduler lags it asks for more and more."""

from __future__ import annotations

from fathom.controllers import plan_autoscaling
from fathom.sim.zoo import put_back

SCENARIOS = ("autoscaler-under-lag",)
BREAKS = "bounded growth"

put_back(plan_autoscaling, "blocker", lambda scene: None)
