"""A Deployment with the strategy Recreate that goes back to an earlier revision starts its pods while those
of the other revision are still ending."""

from __future__ import annotations

from fathom.controllers.deployment.plan import _recreate
from fathom.sim.zoo import rewrite

ROOM = "controllers/deployment"

rewrite(
    _recreate,
    "if emptied.patches or any(facts.running.get(uid_of(old)) for old in sets.old):",
    "if emptied.patches:",
)
