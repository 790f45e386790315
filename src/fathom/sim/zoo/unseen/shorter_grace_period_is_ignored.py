"""A pod that is being deleted keeps its first grace period when a later delete gives it a shorter one."""

from __future__ import annotations

from fathom.agent.pod_worker import PodWorker
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    PodWorker._grace_ends_ns,
    " or grace_s < self._grace_s",
    "",
)
