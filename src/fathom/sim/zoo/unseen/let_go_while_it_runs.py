"""The agent reports a pod as gone as soon as it is being deleted, while its containers still run."""

from __future__ import annotations

from fathom.agent.reporter import _may_go
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    _may_go,
    ('return worker.over and is_deleting(pod) and lookup(pod, "status", "phase") in TERMINAL_PHASES'),
    "return is_deleting(pod)",
)
