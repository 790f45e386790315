"""What a scheduler says about a waiting pod is not said again if the write got no answer or met a change:
the pod waits without a reason."""

from __future__ import annotations

from fathom.schedule.loop.pod_status_writer import PodStatusWriter
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    PodStatusWriter._conclude,
    "if isinstance(outcome, Committed):",
    "if not isinstance(outcome, Rejected):",
)
