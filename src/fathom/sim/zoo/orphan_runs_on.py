"""43. An agent forgets a pod that is removed from the API at once: its containers run on, and nobody knows of
them."""

from __future__ import annotations

from fathom.agent.pods import NodePods
from fathom.sim.zoo import put_back

SCENARIOS = ("agents-alone",)
BREAKS = "running containers match pod statuses when settled"


def forgotten(self: NodePods, uid: str) -> None:
    self._wanted.pop(uid, None)


put_back(NodePods, "_gone", forgotten)
