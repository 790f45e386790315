"""Of several times at which a key is to be looked at, the latest counts: every change postpones what was
due."""

from __future__ import annotations

from fathom.control.queue import WorkQueue
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    WorkQueue._arm,
    "if later.when_ns <= when_ns:",
    "if later.when_ns >= when_ns:",
)
