"""A Deployment believes the counts in its ReplicaSets' statuses and does not look at the pods."""

from __future__ import annotations

from fathom.controllers.deployment.plan import available_of
from fathom.sim.zoo import rewrite

ROOM = "controllers/deployment"

rewrite(
    available_of,
    "return min(reported, facts.available.get(uid_of(replica_set), 0), size_of(replica_set))",
    "return reported",
)
