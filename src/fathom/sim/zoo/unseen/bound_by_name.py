"""After an unknown outcome the scheduler looks for a pod of the name: it takes the binding of a successor
for its own."""

from __future__ import annotations

from fathom.schedule.loop.bind_requests import read_outcome
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    read_outcome,
    "if uid_of(pod) != request.uid:",
    "if False:",
)
