"""A rollout of a policy: what lets it go on, what holds it, what sends it back."""

from __future__ import annotations

import msgspec

from fathom.control.plan import Plan
from fathom.kinds.policy_rollout import (
    Gates,
    Observer,
    PolicyRollout,
    PolicyRolloutSpec,
    PolicyRolloutStatus,
    Step,
)
from fathom.kinds.shape import Meta
from fathom.model.times import timestamp
from fathom.schedule.policy_rollout.controller import as_plan
from fathom.schedule.policy_rollout.plan import Share, Signals, plan_rollout

S = 1_000_000_000
NONE = Share()
NOW = 1_800_000_000 * S
SPEC = PolicyRolloutSpec(
    from_="v4", to="v5", steps=(Step(percent=10, hold="60s"), Step(percent=50, hold="60s")), gates=Gates()
)
BEGUN = PolicyRolloutStatus(
    phase="Canary",
    active="v4",
    canary="v5",
    percent=10,
    activation_revision=100,
    step_started_at=timestamp(NOW),
    observed_generation=1,
    observed_by=(Observer(controller="scheduler/a", observed_generation=1, revision=120),),
)


def rollout(status: PolicyRolloutStatus, spec: PolicyRolloutSpec = SPEC) -> PolicyRollout:
    return PolicyRollout(Meta(name="v5", generation=1, resource_version="100"), spec, status)


def signals(after_s: int = 0, *, age_s: float = 1.0, canary: Share = NONE, base: Share = NONE) -> Signals:
    return Signals(NOW + after_s * S, age_s, canary, base)


def test_it_begins_with_the_first_step_and_the_old_policy_for_the_rest() -> None:
    following = plan_rollout(rollout(PolicyRolloutStatus()), signals())
    assert following.status == msgspec.structs.replace(BEGUN, activation_revision=0, observed_by=())


def test_a_policy_that_does_not_exist_begins_nothing() -> None:
    following = plan_rollout(rollout(PolicyRolloutStatus()), Signals(NOW, 1.0, policy_exists=False))
    assert following.status == PolicyRolloutStatus(phase="Pending", active="v4")
    assert following.why == "there is no SchedulingPolicy v5"


def test_the_write_that_began_a_step_is_its_activation() -> None:
    begun = msgspec.structs.replace(BEGUN, activation_revision=0)
    assert plan_rollout(rollout(begun), signals()).status == BEGUN


def test_a_step_lasts_as_long_as_it_says_and_then_the_next_begins() -> None:
    assert plan_rollout(rollout(BEGUN), signals(59)).status is None
    following = plan_rollout(rollout(BEGUN), signals(60)).status
    assert following == msgspec.structs.replace(
        BEGUN, percent=50, step=1, activation_revision=0, step_started_at=timestamp(NOW + 60 * S)
    )


def test_after_the_last_step_the_new_policy_holds_for_all() -> None:
    last = msgspec.structs.replace(BEGUN, percent=50, step=1)
    following = plan_rollout(rollout(last), signals(61)).status
    assert following is not None
    assert (following.phase, following.active, following.canary, following.percent) == (
        "Complete",
        "v5",
        "",
        0,
    )


def test_a_cache_that_has_not_reached_the_activation_holds_the_step() -> None:
    behind = msgspec.structs.replace(BEGUN, observed_by=(Observer(controller="scheduler/a", revision=99),))
    following = plan_rollout(rollout(behind), signals(60))
    assert (following.status, following.why) == (
        None,
        "held: the caches of scheduler/a have not reached revision 100",
    )


def test_signals_that_are_too_old_hold_the_step_even_when_they_look_bad() -> None:
    following = plan_rollout(rollout(BEGUN), signals(60, age_s=31.0, canary=Share(2, 2)))
    assert (following.status, following.why) == (None, "held: the signals are older than 30s")


def test_pods_that_wait_under_the_canary_send_it_back() -> None:
    following = plan_rollout(rollout(BEGUN), signals(5, canary=Share(4, 2), base=Share(40, 1)))
    assert following.status is not None
    assert (following.status.phase, following.status.active, following.status.canary) == (
        "RolledBack",
        "v4",
        "",
    )
    assert following.why == "rolled back: 2 of 4 pods are unschedulable because of v5, 1 of 40 because of v4"
    assert following.status.activation_revision == 0, "the revision of this write is not known before"


def test_pods_that_wait_everywhere_are_not_the_canarys_doing() -> None:
    assert plan_rollout(rollout(BEGUN), signals(5, canary=Share(4, 1), base=Share(40, 20))).status is None


def test_without_automatic_rollback_a_regression_holds() -> None:
    spec = msgspec.structs.replace(SPEC, automatic_rollback=False)
    following = plan_rollout(rollout(BEGUN, spec), signals(90, canary=Share(1, 1)))
    assert following.status is None
    assert following.why.startswith("held: 1 of 1 pods")


def test_why_it_went_back_stays_said() -> None:
    back = msgspec.structs.replace(BEGUN, phase="RolledBack", canary="")
    why = "rolled back: 2 of 4 pods under v5 are unschedulable"
    said = {"type": "Progressing", "status": "False", "reason": "RolledBack", "message": why}
    obj = {"metadata": {"name": "v5"}, "status": {"conditions": [said]}}
    following = plan_rollout(rollout(back), signals(5))
    observed = Plan(why="RolledBack: every scheduler has observed it")
    assert as_plan(obj, rollout(back), following, "2026-01-01T00:00:00Z") == observed


def test_the_write_that_sent_it_back_is_the_activation_of_the_rollback() -> None:
    back = msgspec.structs.replace(BEGUN, phase="RolledBack", canary="", activation_revision=0)
    following = plan_rollout(rollout(back), signals(5))
    assert following.status == msgspec.structs.replace(back, activation_revision=100)
    said = {"type": "Progressing", "status": "False", "reason": "RolledBack", "message": "rolled back: why"}
    obj = {"metadata": {"name": "v5"}, "status": {"conditions": [said]}}
    (patch,) = as_plan(obj, rollout(back), following, "2026-01-01T00:00:00Z").patches
    assert patch.patch["status"]["activationRevision"] == 100
    assert patch.patch["status"]["conditions"] == [said], "why it went back stays said"


def test_who_has_not_observed_a_rollback_is_named() -> None:
    late = (Observer(controller="scheduler/a", revision=99),)
    back = msgspec.structs.replace(BEGUN, phase="RolledBack", canary="", observed_by=late)
    following = plan_rollout(rollout(back), signals(5))
    assert (following.status, following.why) == (
        None,
        "RolledBack: the caches of scheduler/a have not reached revision 100",
    )
