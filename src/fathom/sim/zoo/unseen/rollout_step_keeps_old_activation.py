"""A new step of a policy rollout counts as active since the step before: nobody waits until it is seen."""

from __future__ import annotations

from fathom.schedule.policy_rollout.plan import _at_step
from fathom.sim.zoo import rewrite

ROOM = "schedule/policy_rollout"

rewrite(
    _at_step,
    "        activation_revision=0,\n",
    "",
)
