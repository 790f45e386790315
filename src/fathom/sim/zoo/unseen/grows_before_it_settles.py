"""A new revision grows before the old ones have reached the size that they were last asked for."""

from __future__ import annotations

from fathom.controllers.deployment.plan import _settled
from fathom.sim.zoo import rewrite

ROOM = "controllers/deployment"

rewrite(
    _settled,
    "if not any(_is_unsettled(replica_set, facts) for replica_set in sets.all):",
    "if True:",
)
