"""An override that runs out wakes none of the pods that it kept waiting."""

from __future__ import annotations

from fathom.schedule.loop.cluster_view import ClusterView
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    ClusterView.passing,
    "        return ended\n",
    "        return []\n",
)
