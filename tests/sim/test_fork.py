"""Forks: live state as the beginning of a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fathom.client.api import Resource
from fathom.model.body import Body
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import DEPLOYMENTS
from fathom.model.well_known import CERTIFICATE_ANNOTATION
from fathom.sim.fork import end, fork, perform, run_for
from fathom.sim.fork_state import (
    ClusterState,
    ContainerSample,
    PodSample,
    state_from_objects,
    state_from_store,
    state_of_world,
)
from fathom.sim.scenarios.real import deployment, run_real_cluster, until_ready
from fathom.sim.world.engine import Engine
from fathom.sim.world.signing_key import world_key
from fathom.sim.world.world import World
from fathom.store.backup import backup
from fathom.store.contents import StoreContents
from fathom.store.protocol import Change, Entry, Put
from fathom.store.sqlite import SqliteStore

REPLICAS = 6
RESTLESS = ("/registry/leases.coordination.k8s.io/", "/registry/fences.", "/fathom/")
NODES = "/registry/nodes/"
TIMES = ("lastHeartbeatTime", "lastTransitionTime")


@lru_cache(maxsize=1)
def settled() -> ClusterState:
    engine = Engine("0", signing=world_key())
    world = World(engine)

    async def story(world: World) -> None:
        run_real_cluster(world, spare=False)
        await world.apply(DEPLOYMENTS, deployment("web", REPLICAS))
        await until_ready(world, "web", REPLICAS)
        await world.settle()

    world.tell(story, deadline_s=600)
    assert engine.violation is None
    state = state_of_world(world)
    engine.end()
    return state


@pytest.fixture
def forked() -> Iterator[World]:
    world = fork(settled(), "1")
    yield world
    end(world)


def written(world: World) -> list[str]:
    """Keys of later commits, heartbeats aside."""
    keys: list[str] = []
    world.engine.watchers.append(
        lambda changes: keys.extend(change.key for change in changes if not is_heartbeat(change))
    )
    return keys


def is_heartbeat(change: Change) -> bool:
    """A report of a node that says nothing new is one."""
    if not change.key.startswith(NODES) or change.entry is None or change.previous is None:
        return change.key.startswith(RESTLESS)
    before, after = (without_times(entry.body.obj) for entry in (change.previous, change.entry))
    return before == after


def without_times(node: Obj) -> tuple[Any, ...]:
    meta, status = metadata(node), node.get("status") or {}
    conditions = [
        {name: value for name, value in each.items() if name not in TIMES}
        for each in status.get("conditions") or ()
    ]
    told = [meta.get(name) for name in ("labels", "annotations", "finalizers", "deletionTimestamp")]
    return told, node.get("spec"), {**status, "conditions": conditions}


def test_the_true_controllers_leave_a_settled_world_as_it_is(forked: World) -> None:
    keys = written(forked)
    run_for(forked, 600)
    assert keys == []
    assert forked.now_s >= 600


def test_pods_go_on_running_with_their_ages(forked: World) -> None:
    before = {metadata(pod)["uid"]: pod["status"] for pod in forked.list("pods")}
    run_for(forked, 60)
    assert {metadata(pod)["uid"]: pod["status"] for pod in forked.list("pods")} == before
    assert len(before) == REPLICAS


def test_clock_and_revision_are_those_of_the_state(forked: World) -> None:
    state = settled()
    assert forked.engine.store.newest >= state.contents.revision
    web = forked.get("deployments.apps", Key("default", "web"))
    assert web is not None
    kept = {entry.key: entry.revision for entry in state.contents.entries}
    assert int(metadata(web)["resourceVersion"]) == kept["/registry/deployments.apps/default/web"]
    assert forked.engine.epoch_ns == state.time_ns


def test_the_same_seed_gives_the_same_run_and_another_does_not() -> None:
    assert trace("1") == trace("1")
    assert trace("1") != trace("2")


def trace(seed: str) -> str:
    world = fork(settled(), seed)
    try:
        perform(world, lambda fork: fork.apply(DEPLOYMENTS, deployment("web", REPLICAS + 3)))
        run_for(world, 60)
        return world.engine.trace.hexdigest()
    finally:
        end(world)


def test_a_change_is_made_through_the_api_and_has_its_effect(forked: World) -> None:
    perform(forked, lambda world: world.apply(DEPLOYMENTS, deployment("web", REPLICAS + 2)))
    run_for(forked, 60)
    running = [pod for pod in forked.list("pods") if lookup(pod, "status", "phase") == "Running"]
    assert len(running) == REPLICAS + 2


def test_two_forks_of_one_state_do_not_touch_each_other(forked: World) -> None:
    other = fork(settled(), "1")
    perform(other, lambda world: world.delete(DEPLOYMENTS, "web"))
    end(other)
    assert forked.get("deployments.apps", Key("default", "web")) is not None


async def write_store(data: Path, state: ClusterState) -> None:
    store = SqliteStore.open(data)
    for entry in sorted(state.contents.entries, key=lambda entry: entry.revision):
        await store.commit((), [Put(entry.key, Body(encoded=entry.body.encoded))])
    await store.close()


def test_a_backup_is_a_beginning(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    asyncio.run(write_store(data, settled()))
    backup(data, tmp_path / "backup.db")
    state = state_from_store(tmp_path / "backup.db", time_ns=settled().time_ns)
    world = fork(state, "1")
    keys = written(world)
    run_for(world, 120)
    end(world)
    assert keys == []
    assert len(state.contents.entries) == len(settled().contents.entries)


def test_lists_of_the_api_are_a_beginning_and_the_ledger_is_counted_anew() -> None:
    kinds = ("nodes", "pods", "deployments.apps", "replicasets.apps", "leases.coordination.k8s.io")
    state = state_from_objects(objects_of(settled(), kinds), time_ns=settled().time_ns)
    world = fork(state, "1")
    run_for(world, 60)
    ledgers = [entry.key for entry in world.engine.store.entries() if "ledger" in entry.key]
    pods = world.list("pods")
    end(world)
    assert {lookup(pod, "status", "phase") for pod in pods} == {"Running"}
    assert len(pods) == REPLICAS
    assert ledgers


def objects_of(state: ClusterState, kinds: tuple[str, ...]) -> list[tuple[str, Obj]]:
    return [
        (kind, entry.body.obj_at(entry.revision))
        for kind in kinds
        for entry in state.contents.entries
        if entry.key.startswith(f"/registry/{kind}/")
    ]


def changed(state: ClusterState, change: Any) -> ClusterState:
    """The state with each object as `change` (key, object) returns it."""
    entries = tuple(
        Entry(entry.key, Body(change(entry.key, entry.body.obj)), entry.revision, entry.created)
        for entry in state.contents.entries
    )
    return msgspec.structs.replace(state, contents=StoreContents(entries, state.contents.revision))


def test_containers_of_another_runtime_go_on_too() -> None:
    def other_runtime(key: str, obj: Obj) -> Obj:
        text = msgspec.json.encode(obj).replace(b"simulated://", b"process://17-4711-")
        return msgspec.json.decode(text) if key.startswith("/registry/pods/") else obj

    world = fork(changed(settled(), other_runtime), "1")
    keys = written(world)
    run_for(world, 120)
    restarts = [
        status["restartCount"] for pod in world.list("pods") for status in pod["status"]["containerStatuses"]
    ]
    end(world)
    assert restarts == [0] * REPLICAS
    assert keys == []


def test_a_pod_that_crashes_goes_on_crashing_and_so_do_its_siblings() -> None:
    def crashing(key: str, obj: Obj) -> Obj:
        if not key.startswith("/registry/pods/"):
            return obj
        ended = {"exitCode": 3, "reason": "Error", "containerID": "simulated://x"}
        times = {"startedAt": "2026-01-01T00:00:20Z", "finishedAt": "2026-01-01T00:00:22Z"}
        statuses = [
            {
                **status,
                "ready": False,
                "restartCount": 4,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {**ended, **times}},
            }
            for status in obj["status"]["containerStatuses"]
        ]
        return {**obj, "status": {**obj["status"], "containerStatuses": statuses}}

    world = fork(changed(settled(), crashing), "1")
    perform(world, lambda fork: fork.apply(DEPLOYMENTS, deployment("web", REPLICAS + 1)))
    run_for(world, 400)
    statuses = [pod["status"]["containerStatuses"][0] for pod in world.list("pods")]
    end(world)
    assert len(statuses) >= REPLICAS
    assert all(status["restartCount"] > 0 and not status["ready"] for status in statuses)


def autoscaler(target_percent: int) -> Obj:
    metric = {"type": "Utilization", "averageUtilization": target_percent}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 50,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": metric}}],
        },
    }


def with_endpoints(key: str, obj: Obj) -> Obj:
    """Nodes whose agents answer for usage, as live ones do."""
    if not key.startswith("/registry/nodes/"):
        return obj
    meta = {**obj["metadata"], "annotations": {CERTIFICATE_ANNOTATION: "PEM"}}
    port = {"kubeletEndpoint": {"Port": 10250}}
    return {**obj, "metadata": meta, "status": {**obj["status"], "daemonEndpoints": port}}


def test_autoscalers_see_the_usage_of_the_state_and_the_load_is_shared_by_more_pods() -> None:
    pods = [obj for _, obj in objects_of(settled(), ("pods",))]
    # 90 millicores of 100 requested, wanted are 60 %: 1.5 times as many pods.
    usage = tuple(
        PodSample("default", metadata(pod)["name"], (ContainerSample("main", 90_000_000, 1 << 20),))
        for pod in pods
    )
    state = msgspec.structs.replace(changed(settled(), with_endpoints), usage=usage)
    world = fork(state, "1")
    resource = Resource("autoscaling", "v2", "horizontalpodautoscalers")
    perform(world, lambda fork: fork.apply(resource, autoscaler(60)))
    run_for(world, 600)
    replicas = len([pod for pod in world.list("pods") if lookup(pod, "status", "phase") == "Running"])
    end(world)
    assert replicas == REPLICAS * 3 // 2
