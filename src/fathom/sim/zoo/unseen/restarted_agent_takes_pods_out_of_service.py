"""An agent that restarts calls the pods that it takes over not ready until their probes have passed again."""

from __future__ import annotations

from fathom.agent.pod_worker import PodWorker
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    PodWorker._adopt,
    "slot.began(run, ready=run.exit is None and was_ready(self.pod, run))",
    "slot.began(run)",
)
