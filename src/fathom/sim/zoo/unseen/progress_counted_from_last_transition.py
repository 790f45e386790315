"""The progress deadline counts from the condition's last change of status, not its last progress."""

from __future__ import annotations

from fathom.controllers.deployment.plan_status import progressed_at
from fathom.sim.zoo import rewrite

ROOM = "controllers/deployment"

rewrite(
    progressed_at,
    'return condition.get("lastUpdateTime") or condition.get("lastTransitionTime")',
    'return condition.get("lastTransitionTime") or condition.get("lastUpdateTime")',
)
