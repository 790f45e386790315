"""The condition about a refused pod replaces all conditions of the ReplicaSet, also those of others."""

from __future__ import annotations

from fathom.controllers.replicaset.plan import plan_failure
from fathom.sim.zoo import rewrite

ROOM = "controllers/replicaset"

rewrite(
    plan_failure,
    ("    conditions = set_condition(\n        conditions_of(owner),\n"),
    ("    conditions = set_condition(\n        [],\n"),
)
