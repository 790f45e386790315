"""An agent that restarts does not take over the containers that it finds: it starts them again."""

from __future__ import annotations

from fathom.agent.pod_worker import PodWorker
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    PodWorker._adopt,
    ("        if slot is None:\n            return\n"),
    ("        if True:\n            return\n"),
)
