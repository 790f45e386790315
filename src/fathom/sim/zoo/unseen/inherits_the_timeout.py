"""A rollout that timed out makes the next rollout count as timed out from its start."""

from __future__ import annotations

from fathom.controllers.deployment.plan_status import is_about
from fathom.sim.zoo import rewrite

ROOM = "controllers/deployment"

rewrite(
    is_about,
    ('return condition is not None and f\'"{metadata(new)["name"]}"\' in str(condition.get("message"))'),
    "return condition is not None",
)
