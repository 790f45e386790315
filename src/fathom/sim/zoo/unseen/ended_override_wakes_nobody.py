"""An override that runs out wakes none of the pods that it kept waiting."""

from __future__ import annotations

from fathom.schedule.loop.cluster_view import ClusterView
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    ClusterView.passing,
    "        return self._ends.passed(now_ns)\n",
    "        return []\n",
)
