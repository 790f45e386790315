"""A ReplicaSet that has too many pods deletes the ready ones first."""

from __future__ import annotations

from fathom.controllers.replicaset.scale_down_order import leaving_first
from fathom.sim.zoo import rewrite

ROOM = "controllers/replicaset"

rewrite(
    leaving_first,
    "            is_ready(pod),\n",
    "            not is_ready(pod),\n",
)
