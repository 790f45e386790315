"""A policy rollout takes its next step as soon as one of several schedulers has seen the current one: the
other scheduler still decides by the step before."""

from __future__ import annotations

from fathom.kinds.policy_rollout import PolicyRollout
from fathom.schedule.policy_rollout import plan
from fathom.schedule.policy_rollout.plan import NOT_OBSERVED, HeldStep, Signals
from fathom.sim.zoo import put_back

SCENARIOS = ("policy-rollout-by-two-schedulers",)
BREAKS = "every scheduler sees a rollout step before the next one"


def best_of_them(rollout: PolicyRollout, signals: Signals) -> HeldStep | None:
    seen = max((observer.revision for observer in rollout.status.observed_by), default=0)
    if seen >= rollout.status.activation_revision:
        return None
    return HeldStep(NOT_OBSERVED, "no scheduler has seen this step")


put_back(plan, "unmet_gate", best_of_them)
