"""Pods that are about to be adopted are not counted: a new one is made beside each of them."""

from __future__ import annotations

from fathom.controllers.replicaset.plan import plan_replicas
from fathom.sim.zoo import rewrite

ROOM = "controllers/replicaset"

rewrite(
    plan_replicas,
    "missing = wanted_of(owner) - len(active) - len(facts.claims.adopt)",
    "missing = wanted_of(owner) - len(active)",
)
