"""An agent that restarts calls the pods that it takes over not ready until their probes have passed again."""

from __future__ import annotations

from fathom.agent.pod_worker import PodWorker
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    PodWorker._adopt,
    'slot.began(run, ready=bool(was.get("ready")), started=bool(was.get("started")))',
    "slot.began(run)",
)
