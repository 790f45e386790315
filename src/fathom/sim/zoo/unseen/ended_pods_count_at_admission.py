"""Pods that have ended count when the agent checks whether a new pod fits on the node."""

from __future__ import annotations

from fathom.agent.pods import NodePods
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    NodePods._admitted_claims,
    " or is_terminal(pod)",
    "",
    "if worker is None or not worker.over:",
    "if worker is None or not worker.over or is_terminal(pod):",
)
