"""Overrides that pause something about a workload, for as long as they last."""

from __future__ import annotations

import pytest
from tests.control.worlds import told
from tests.controllers.making import NOW_S, at, meta
from tests.deep import first_few

from fathom.client.api import Resource
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.override_pauses import WorkloadPause, paused, workload_of
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.decision import considered
from fathom.model.objects import Key, Obj, lookup, uid_of
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS, NODES
from fathom.sim.scenarios.loads import LOW, AutoscalersOfLoad, Load
from fathom.sim.scenarios.objects import node
from fathom.sim.scenarios.staff import run_managers_and_agents
from fathom.sim.scenarios.workloads import autoscaler, deployment
from fathom.sim.world.world import World

OVERRIDES = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
NOW_NS = NOW_S * 1_000_000_000
WEB = Key("default", "web")


def override(
    name: str,
    *,
    target: str = "workload/web",
    scope: str = "cluster",
    until_s: float = 60,
    **changes: object,
) -> Obj:
    spec = {"target": target, "scope": scope, "reason": "calm", "expiresAfter": "30s", "changes": changes}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": meta(name),
        "spec": {**spec, "changes": changes},
        "status": {"expiresAt": at(until_s)},
    }


def pausing(*overrides: Obj) -> WorkloadPause | None:
    return paused(
        overrides,
        "Deployment",
        WEB,
        "pause_rollout",
        now_ns=NOW_NS,
        in_scope=lambda scope: scope == "cluster",
    )


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
    assert pausing(override("elsewhere", scope="region/eu-west", pauseRollout=True)) is None
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
        run_managers_and_agents(world, Deployments, ReplicaSets)
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


@pytest.mark.parametrize(("region", "revisions"), [("eu-west", 1), ("eu-east", 2)])
def test_a_rollout_is_paused_where_its_pods_are_and_goes_on_elsewhere(region: str, revisions: int) -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, Deployments, ReplicaSets)
        await world.apply(NODES, _in_region("node-1", region))
        await world.apply(NODES, _in_region("node-2", "eu-west"))
        await world.apply(DEPLOYMENTS, deployment("web", 2))
        await world.sleep(5)
        made = override("calm", scope="region/eu-west", pauseRollout=True)
        await world.apply(
            OVERRIDES, {**made, "metadata": {"name": "calm", "namespace": "default"}, "status": {}}
        )
        await world.sleep(1)
        await world.apply(DEPLOYMENTS, deployment("web", 2, tag=2))
        await world.sleep(15)
        assert len(world.list("replicasets.apps")) == revisions

    told(story)


def _in_region(name: str, region: str) -> Obj:
    made = node(name)
    made["metadata"]["labels"]["topology.kubernetes.io/region"] = region
    return made


# Changes, scope, and the sizes that a Deployment has: when its load is high, and long after it is low.
AUTOSCALED = [
    ({}, "cluster", [6, 1]),
    ({"pauseAutoscaler": True}, "region/eu-west", [2, 2]),
    ({"pauseExpansion": True}, "region/eu-west", [2, 1]),
    ({"pauseAutoscaler": True}, "region/eu-east", [6, 1]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "scope", "sizes"), first_few(AUTOSCALED, 2))
def test_an_autoscaler_is_paused_in_both_directions_or_in_one_within_the_scope(
    changes: Obj, scope: str, sizes: list[int]
) -> None:
    async def story(world: World) -> None:
        load = Load()
        run_managers_and_agents(world, Deployments, ReplicaSets, DeploymentProgress, AutoscalersOfLoad(load))
        await world.apply(NODES, _in_region("node-1", "eu-west"))
        web = deployment("web", 2)
        web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
        await world.apply(DEPLOYMENTS, web)
        made = override("calm", scope=scope, **changes)
        made |= {"metadata": {"name": "calm", "namespace": "default"}, "status": {}}
        made["spec"]["expiresAfter"] = "1h"
        if changes:
            await world.apply(OVERRIDES, made)
        await world.apply(AUTOSCALERS, autoscaler("web", 6))
        await world.sleep(120)
        seen = [_size(world)]
        load.nanos = LOW
        await world.sleep(900)
        assert [*seen, _size(world)] == sizes

    told(story)


@pytest.mark.parametrize("deleted", [False, True])
def test_an_autoscaler_is_woken_by_the_end_of_its_pause_and_not_by_its_period(deleted: bool) -> None:
    """It looks every 15 s of virtual time: at 0, 15 and 30 s. The pause ends 7 s later, by itself or not."""

    async def story(world: World) -> None:
        run_managers_and_agents(
            world, Deployments, ReplicaSets, DeploymentProgress, AutoscalersOfLoad(Load())
        )
        await world.apply(NODES, _in_region("node-1", "eu-west"))
        web = deployment("web", 2)
        web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
        await world.apply(DEPLOYMENTS, web)
        await world.sleep(10)
        made = override("calm", pauseAutoscaler=True)
        made |= {"metadata": {"name": "calm", "namespace": "default"}, "status": {}}
        made["spec"]["expiresAfter"] = "1h" if deleted else "37s"
        await world.apply(OVERRIDES, made)
        await world.apply(AUTOSCALERS, autoscaler("web", 6))
        await world.sleep(36)
        assert _size(world) == 2
        if deleted:
            stored = world.get(OVERRIDES.name, Key("default", "calm")) or {}
            await world.api.delete(OVERRIDES, "default", "calm", uid=uid_of(stored))
        await world.until(lambda: _size(world) > 2, within_s=3, what="it scales")

    told(story)


def _size(world: World) -> int:
    return int(lookup(world.get(DEPLOYMENTS.name, WEB), "spec", "replicas") or 0)
