"""What a scheduler observed in an earlier term counts for its present one."""

from __future__ import annotations

from fathom.schedule.policy_rollout.observed import _is_mine
from fathom.sim.zoo import rewrite

ROOM = "schedule/policy_rollout"

rewrite(
    _is_mine,
    ' and int(entry.get("epoch") or 0) == term.epoch',
    "",
)
