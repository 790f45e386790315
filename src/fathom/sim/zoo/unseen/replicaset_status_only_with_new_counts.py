"""A ReplicaSet's status is written with new counts only: a new generation or condition alone is not."""

from __future__ import annotations

from fathom.controllers.replicaset.plan import _status
from fathom.sim.zoo import rewrite

ROOM = "controllers/replicaset"

rewrite(
    _status,
    "    if not changed:\n",
    '    if not changed.keys() - {"observedGeneration", "conditions"}:\n',
)
