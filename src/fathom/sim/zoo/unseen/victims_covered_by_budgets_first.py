"""Preemption spares the pods that no budget covers first, and evicts those whose eviction breaks a budget."""

from __future__ import annotations

from fathom.schedule.decide.preempt import _victims
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    _victims,
    "key=lambda placed: not breaks[placed.view.uid]",
    "key=lambda placed: bool(breaks[placed.view.uid])",
)
