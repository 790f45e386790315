"""34. A controller does not retry a write that was refused as a conflict, because the change of the faster
writer should wake it. If it has seen that change already, nothing wakes it."""

from __future__ import annotations

from fathom.control.loop import Loop
from fathom.control.reconcile_result import Failure
from fathom.model.objects import Key
from fathom.sim.zoo import put_back

SCENARIOS = ("refused-now-and-then",)
BREAKS = "statuses match the objects when settled"

_right = Loop._failed


async def but_for_conflicts(self: Loop, key: Key, failure: Failure) -> str:
    if failure.reason != "Conflict":
        return await _right(self, key, failure)
    self.queue.done(key)
    return "failed"


put_back(Loop, "_failed", but_for_conflicts)
