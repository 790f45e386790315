"""An agent that restarts judges anew whether pods fit that are running already."""

from __future__ import annotations

from fathom.agent.pods import NodePods
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    NodePods._is_rejected,
    "if self._node is None or uid in await self._held_before():",
    "if self._node is None:",
    "and not was_admitted(pod) and not is_deleting(pod):",
    "and not is_deleting(pod):",
    "or was_admitted(pod) or is_deleting(pod):",
    "or is_deleting(pod):",
)
