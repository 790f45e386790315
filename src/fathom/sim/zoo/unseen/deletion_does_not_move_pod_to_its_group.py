"""A pod that is being deleted still counts among the pods that are not."""

from __future__ import annotations

from fathom.schedule.decide.node_table import _counts_alike
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    _counts_alike,
    " and old.view.deleting == view.deleting",
    "",
)
