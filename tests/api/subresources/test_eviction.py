"""Which pods an eviction asks the budgets about."""

from __future__ import annotations

import pytest

from fathom.api.subresources.eviction import is_exempt, may_go_unhealthy, take_disruption
from fathom.model.errors import ApiError
from fathom.model.objects import Obj

NOW = "2024-01-01T00:00:00Z"


def pod(*, ready: bool, phase: str = "Running") -> Obj:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"metadata": {"name": "p"}, "status": {"phase": phase, "conditions": [condition]}}


def budget(*, healthy: int, desired: int, allowed: int = 0, policy: str = "") -> Obj:
    spec = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    counts = {"currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed}
    return {
        "metadata": {"name": "b", "generation": 1},
        "spec": spec,
        "status": {**counts, "observedGeneration": 1},
    }


@pytest.mark.parametrize(("phase", "exempt"), [("Pending", True), ("Failed", True), ("Running", False)])
def test_only_a_running_pod_disrupts(phase: str, exempt: bool) -> None:
    assert is_exempt(pod(ready=True, phase=phase)) is exempt


@pytest.mark.parametrize(
    ("ready", "of", "may"),
    [
        (True, budget(healthy=3, desired=2, policy="AlwaysAllow"), False),
        (False, budget(healthy=1, desired=2), False),
        (False, budget(healthy=2, desired=2), True),
        (False, budget(healthy=1, desired=2, policy="IfHealthyBudget"), False),
        (False, budget(healthy=1, desired=2, policy="AlwaysAllow"), True),
        (False, budget(healthy=0, desired=0), False),  # Nobody has counted yet.
    ],
)
def test_an_unready_pod_may_go_where_no_healthy_one_is_missed(ready: bool, of: Obj, may: bool) -> None:
    assert may_go_unhealthy(pod(ready=ready), of) is may


def test_a_disruption_is_taken_and_remembered() -> None:
    before = budget(healthy=3, desired=2, allowed=1)
    after = take_disruption(before, "p", now=NOW)
    assert after["status"] == {**before["status"], "disruptionsAllowed": 0, "disruptedPods": {"p": NOW}}
    with pytest.raises(ApiError) as refused:
        take_disruption(after, "q", now=NOW)
    assert (refused.value.code, refused.value.details["causes"]) == (
        429,
        [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget b needs 2 healthy pods and has 3 currently",
            }
        ],
    )
