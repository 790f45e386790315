"""Each pass that a change wakes counts as a failed attempt: a ReplicaSet whose pods come and go while its
quota is full is given up within seconds, and does not notice that there is room."""

from __future__ import annotations

from fathom.control.queue import WorkQueue
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    WorkQueue.judge,
    'counts = taken is None or taken.cause.kind != "event"',
    "counts = True",
)
