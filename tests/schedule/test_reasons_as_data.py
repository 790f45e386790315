"""What a scheduler has decided reaches other processes as data: the boundary that holds a pod, and the place
in line at which it was taken."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.clients.running import running
from tests.control.worlds import told
from tests.schedule.test_live import Cluster, start

from fathom.client.api import Resource
from fathom.controllers.autoscaler.plan import AutoscalerFacts, AutoscalerStatus, blocker
from fathom.controllers.progress.controller import ReplicaSetProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.kinds.workload_progress import PROGRESS
from fathom.model.conditions import conditions_of
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import NODES, PODS, REPLICA_SETS
from fathom.sim.scenarios.scheduling import node, pod, run_scheduler
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.world import World

HOST = "kubernetes.io/hostname"
WEB = Key("default", "replicaset-web")


def web(**spec: object) -> Obj:
    template = pod("web", cpu="2", labels={"app": "web"})
    template["spec"] |= spec
    return {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
        },
    }


def apart_from(app: str) -> Obj:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def reasons(progress: Obj | None) -> list[str]:
    listed = lookup(progress or {}, "status", "current", "pendingReasons") or ()
    return [str(one.get("reason")) for one in listed]


def conditions(obj: Obj | None) -> dict[str, str]:
    """Type -> reason, of those that are true."""
    return {
        str(one["type"]): str(one["reason"]) for one in conditions_of(obj or {}) if one["status"] == "True"
    }


async def until_held(world: World, *, full: int, apart: int) -> tuple[list[str], AutoscalerStatus | None]:
    """A replica lacks CPU on so many nodes and may not be beside another pod on so many others. What its
    WorkloadProgress says, and what holds its autoscaler."""
    run_scheduler(world, "scheduler")
    run_controllers(world, "manager", ReplicaSets, ReplicaSetProgress)
    for number in range(full):
        await world.apply(NODES, node(f"full-{number}", more={"cpu": "1"}))
    for number in range(apart):
        await world.apply(NODES, node(f"apart-{number}"))
        rival = pod(f"rival-{number}", labels={"app": "rival"})
        rival["spec"]["nodeName"] = f"apart-{number}"
        await world.apply(PODS, rival)
    await world.apply(REPLICA_SETS, web(affinity=apart_from("rival")))
    scheduler_said = {"capacity", "topology/affinity"}
    await world.until(
        lambda: bool(scheduler_said.intersection(reasons(world.get(PROGRESS, WEB)))),
        within_s=30,
        what="the progress says what the scheduler has said",
    )
    progress = world.get(PROGRESS, WEB)
    workload = world.get("replicasets.apps", Key("default", "web"))
    return reasons(progress), blocker(AutoscalerFacts(workload, progress=progress))


def test_a_pod_that_lacks_cpu_on_four_nodes_and_affinity_on_one_waits_for_capacity() -> None:
    async def story(world: World) -> None:
        found, held = await until_held(world, full=4, apart=1)
        assert found == ["capacity"]
        assert held is not None
        assert held.reason == "HeldByCapacity"

    told(story)


def test_a_pod_that_lacks_affinity_on_four_nodes_and_cpu_on_one_waits_for_topology() -> None:
    async def story(world: World) -> None:
        found, held = await until_held(world, full=1, apart=4)
        assert found == ["topology/affinity"]
        assert held is not None
        assert held.reason == "HeldByTopology"

    told(story)


QUOTAS = Resource("", "v1", "resourcequotas")


def test_replicas_that_a_quota_refuses_wait_for_quota_and_no_sentence_is_read_for_that() -> None:
    async def story(world: World) -> None:
        run_controllers(world, "manager", ReplicaSets, ReplicaSetProgress)
        meta = {"name": "q", "namespace": "default"}
        none = {
            "kind": "ResourceQuota",
            "apiVersion": "v1",
            "metadata": meta,
            "spec": {"hard": {"pods": "0"}},
        }
        await world.apply(QUOTAS, none)
        await world.apply(REPLICA_SETS, web())
        await world.until(
            lambda: reasons(world.get(PROGRESS, WEB)) == ["quota"], within_s=30, what="the quota is named"
        )
        said = conditions(world.get("replicasets.apps", Key("default", "web")))
        assert (said["ReplicaFailure"], said["fathom.dev/PodsRefused"]) == ("FailedCreate", "quota")
        await world.apply(QUOTAS, {**none, "spec": {"hard": {"pods": "9"}}})
        await world.until(lambda: len(world.list("pods")) == 1, within_s=60, what="its pod is made")
        await world.until(
            lambda: conditions(world.get("replicasets.apps", Key("default", "web"))).keys().isdisjoint(said),
            within_s=30,
            what="nothing is said of refusals any more",
        )

    told(story)


@pytest.mark.live
def test_why_tells_the_place_at_which_the_queue_took_the_pod(tmp_path: Path) -> None:
    """The queue is fair over tenants: the last pod, its tenant's only one, is taken second."""
    with running(tmp_path) as server:
        cluster = Cluster(server, None)  # type: ignore[arg-type]  # started below, when all pods are there
        many, few = cluster.namespace("a-many"), cluster.namespace("b-few")
        for number in range(19):
            cluster.pod(many, f"p{number}", cpu=f"{number + 1}m")  # Shapes of their own: taken one by one.
        cluster.pod(few, "only")
        cluster.process = start(server, tmp_path / "scheduler.log")
        try:
            cluster.waits(few, "only")
            queue = cluster.why(few, "only")[1]["queue"]
            assert (queue["place"], queue["of"], queue["source"]) == (2, 20, "record")
            for number in range(19):
                cluster.waits(many, f"p{number}")
            first = {one["subject"]["name"]: one["place"] for one in reversed(cluster.decisions(many, ""))}
            assert sorted(first.values()) == [[which, 20] for which in (1, *range(3, 21))]
        finally:
            cluster.process.send_signal(signal.SIGTERM)
            assert cluster.process.wait(20) == 0
