"""An agent that restarts takes a pod that has ended for history although it is being deleted: nobody sends
the final delete, and the pod stays."""

from __future__ import annotations

from fathom.agent.pods import NodePods
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    NodePods._is_history,
    'return is_terminal(pod) and not (pod["metadata"].get("deletionTimestamp"))',
    "return is_terminal(pod)",
)
