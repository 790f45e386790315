"""An agent rejects a pod by its Node as it last read it, without reading it anew: a pod that was placed there
because of a new label, or of more room, fails."""

from __future__ import annotations

from fathom.agent.pods import NodePods
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    NodePods._is_rejected,
    "fresh = await self._fetched_node()",
    "fresh = node or await self._fetched_node()",
)
