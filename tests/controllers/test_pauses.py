"""Overrides that pause something about a workload, for as long as they last."""

from __future__ import annotations

from tests.control.worlds import told
from tests.controllers.making import NOW_S, at, meta

from fathom.client.api import Resource
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.override_pauses import WorkloadPause, paused, workload_of
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.decision import considered
from fathom.model.objects import Key, Obj, lookup
from fathom.sim.scenarios.staff import employ
from fathom.sim.scenarios.workloads import DEPLOYMENTS, deployment
from fathom.sim.world.world import World

OVERRIDES = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
NOW_NS = NOW_S * 1_000_000_000
WEB = Key("default", "web")


def override(name: str, *, target: str = "workload/web", until_s: float = 60, **changes: object) -> Obj:
    spec = {"target": target, "scope": "cluster", "reason": "calm", "expiresAfter": "30s"}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": meta(name),
        "spec": {**spec, "changes": changes},
        "status": {"expiresAt": at(until_s)},
    }


def pausing(*overrides: Obj) -> WorkloadPause | None:
    return paused(overrides, "Deployment", WEB, "pause_rollout", now_ns=NOW_NS)


def test_what_is_in_force_and_about_the_workload_pauses_it() -> None:
    calm = override("calm", pauseRollout=True)
    recorded = (considered(OVERRIDES.name, calm),)
    assert pausing(calm) == WorkloadPause("calm", NOW_NS + 60 * 10**9, recorded)
    assert pausing(override("calm", target="deployment/web", pauseRollout=True)) is not None


def test_what_is_over_or_about_others_or_about_something_else_does_not() -> None:
    assert pausing(override("over", until_s=0, pauseRollout=True)) is None
    assert pausing(override("other", target="workload/api", pauseRollout=True)) is None
    assert pausing(override("job", target="job/web", pauseRollout=True)) is None
    assert pausing(override("scaler", pauseAutoscaler=True)) is None
    assert pausing({"metadata": meta("odd"), "spec": {"changes": 7}}) is None


def test_the_one_that_lasts_longest_counts() -> None:
    found = pausing(override("a", until_s=90, pauseRollout=True), override("b", pauseRollout=True))
    assert found is not None
    assert found.override == "a"
    assert [each.name for each in found.considered] == ["a", "b"]


def test_an_override_concerns_the_workload_that_it_is_about() -> None:
    assert workload_of(override("calm")) == WEB
    assert workload_of(override("calm", target="zone/a")) is None


def test_a_rollout_waits_until_the_override_is_over() -> None:
    async def story(world: World) -> None:
        employ(world, Deployments, ReplicaSets)
        await world.apply(DEPLOYMENTS, deployment("web", 2))
        await world.sleep(5)
        made = override("calm", pauseRollout=True)
        meta_ = {"name": "calm", "namespace": "default"}
        await world.apply(OVERRIDES, {**made, "metadata": meta_, "status": {}})
        await world.sleep(1)
        await world.apply(DEPLOYMENTS, deployment("web", 2, tag=2))
        await world.sleep(15)
        assert len(world.list("replicasets.apps")) == 1, "it did not wait"
        await world.sleep(20)
        found = world.get(DEPLOYMENTS.name, WEB)
        assert lookup(found, "status", "updatedReplicas") == 2, "it did not go on"
        assert len(world.list("replicasets.apps")) == 2

    told(story)
