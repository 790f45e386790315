"""The autoscaler keeps its recommendations by the wall clock: after that is set forward it scales down at
once, without its window, and after it is set back not for as long."""

from __future__ import annotations

from fathom.controllers.autoscaler.plan_behavior import History
from fathom.sim.zoo import rewrite

ROOM = "controllers/autoscaler"

rewrite(
    History.shifted,
    "WantedReplicas(round(recommendation.at_s + by_s, 3), recommendation.replicas)",
    "recommendation",
)
