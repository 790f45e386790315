"""A step of a policy rollout begins with the time for which the step before it was judged: it ends too
early."""

from __future__ import annotations

from fathom.schedule.policy_rollout.plan import _at_step
from fathom.sim.zoo import rewrite

ROOM = "schedule/policy_rollout"

rewrite(
    _at_step,
    "        baked_seconds=0,\n",
    "",
)
