"""Nothing wakes a ReplicaSet when its pods have been ready for long enough: it never calls them available."""

from __future__ import annotations

from fathom.controllers.replicaset.controller import _wait_s
from fathom.sim.zoo import rewrite

ROOM = "controllers/replicaset"

rewrite(
    _wait_s,
    "waits = [wait_s for wait_s in (ready_s, retry_s) if wait_s]",
    "waits = [wait_s for wait_s in (retry_s,) if wait_s]",
)
