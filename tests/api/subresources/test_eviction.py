"""Which pods an eviction asks the budgets about."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.harness import Api, tell

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


def test_an_eviction_is_written_on_its_pod_and_a_dry_one_nowhere(tmp_path: Path) -> None:
    pods, budgets = (
        "/api/v1/namespaces/default/pods",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    )
    container = {"name": "c", "image": "i"}

    async def story(api: Api) -> None:
        await api.post(
            pods, {"metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["example.com/held"]},
                   "spec": {"containers": [container]}},
        )  # fmt: skip
        await api.patch(f"{pods}/p/status", {"status": {"phase": "Running"}})
        selector = {"matchLabels": {"a": "b"}}
        await api.post(
            budgets, {"metadata": {"name": "b"}, "spec": {"minAvailable": 0, "selector": selector}}
        )
        counts = {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
        await api.patch(f"{budgets}/b/status", {"status": {**counts, "observedGeneration": 1}})
        eviction = {"metadata": {"name": "p"}}
        other = await api.post(f"{pods}/p/eviction", {"metadata": {"name": "q"}})
        assert (other.status, other.obj["message"]) == (
            400,
            "name in URL does not match name in Eviction object",
        )
        dry = await api.post(f"{pods}/p/eviction", {**eviction, "deleteOptions": {"dryRun": ["All"]}})
        left = (await api.get(f"{budgets}/b")).obj["status"]["disruptionsAllowed"]
        assert (dry.status, left) == (201, 1)
        version = (await api.get(f"{pods}/p")).obj["metadata"]["resourceVersion"]
        for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
            refused = await api.post(
                f"{pods}/p/eviction", {**eviction, "deleteOptions": {"preconditions": wrong}}
            )
            assert refused.status == 409
        assert (await api.get(f"{pods}/p")).obj["metadata"]["resourceVersion"] == version, "it is as it was"
        right = {"deleteOptions": {"preconditions": {"resourceVersion": version}}}
        assert (await api.post(f"{pods}/p/eviction", {**eviction, **right})).status == 201
        gone = (await api.get(f"{pods}/p")).obj
        said = [one for one in gone["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert [(one["status"], one["reason"]) for one in said] == [("True", "EvictionByEvictionAPI")]
        assert gone["metadata"]["deletionTimestamp"]
        assert (await api.get(f"{budgets}/b")).obj["status"]["disruptionsAllowed"] == 0

    tell(story, tmp_path)


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


def test_a_pod_whose_condition_has_no_status_is_not_ready() -> None:
    """A node may write one: only the type is asked for."""
    unclear = {**pod(ready=True), "status": {"phase": "Running", "conditions": [{"type": "Ready"}]}}
    assert may_go_unhealthy(unclear, budget(healthy=2, desired=2))


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("InsufficientPods", "needs 2 healthy pods and has 1 currently"),
        ("SyncFailed", "does not allow evicting pods currently because it failed sync: no scale"),
    ],
)
def test_why_nothing_is_allowed_is_said(reason: str, words: str) -> None:
    one = budget(healthy=1, desired=2)
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "no scale"}
    one["status"]["conditions"] = [condition]
    with pytest.raises(ApiError) as refused:
        take_disruption(one, "p", now=NOW)
    assert refused.value.details["causes"][0]["message"] == f"The disruption budget b {words}"


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
                "message": "The disruption budget b does not allow evicting pods currently",
            }
        ],
    )
