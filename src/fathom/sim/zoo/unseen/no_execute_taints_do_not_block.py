"""Pods are placed on nodes with a NoExecute taint that they do not tolerate."""

from __future__ import annotations

from fathom.schedule.decide.filters.nodes import untolerated
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    untolerated,
    "taint.effect in BLOCKING",
    'taint.effect == "NoSchedule"',
)
