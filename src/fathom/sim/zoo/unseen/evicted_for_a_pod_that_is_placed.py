"""The scheduler evicts a preemption's victims although the answer to the nomination shows that the pod has a
node by now, goes, or is another one: they lose their place for nobody."""

from __future__ import annotations

from fathom.schedule.loop import evictions
from fathom.sim.zoo import rewrite

ROOM = "schedule/loop"
NOT_FOUND_BECAUSE = "It is one of those invented last. No scenario has been written for it yet."

rewrite(
    evictions.carry_out,
    "if not await _may_wait(api, key, uid, nominated):",
    "if isinstance(nominated, Rejected) and not await _may_wait(api, key, uid, nominated):",
)
