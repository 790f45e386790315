"""A write that arrives after its sender gave up on it and acknowledged what pauses it is refused."""

from __future__ import annotations

from tests.control.worlds import told

from fathom.client.api import Resource
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.overrides.acknowledging import Acknowledgements
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.repair.controller import RepairReservations
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS, NODES
from fathom.model.times import timestamp
from fathom.sim.checkers.override_floor import HonouredOnceAcknowledged
from fathom.sim.scenarios.failures import reservation
from fathom.sim.scenarios.loads import AutoscalersOfLoad, Load
from fathom.sim.scenarios.objects import node
from fathom.sim.scenarios.scheduling import own
from fathom.sim.scenarios.staff import run_managers_and_agents
from fathom.sim.scenarios.steering import OVERRIDES, end_override
from fathom.sim.scenarios.workloads import autoscaler, deployment
from fathom.sim.world.faults import HoldWatch, SlowRequest
from fathom.sim.world.world import World

RESERVATIONS = Resource("fathom.dev", "v1alpha1", "reservations")
GIVEN_UP_S, LATE_S = 12.0, 26.0
APPS = "/apis/apps/v1/namespaces/default"
OWN = "/apis/fathom.dev/v1alpha1/namespaces/default"


async def paused_meanwhile(world: World, target: str, change: str) -> None:
    """The pause comes while the request is on its way, and the request arrives while the pause lasts."""
    await world.apply(OVERRIDES, pause(target, change))
    await world.sleep(GIVEN_UP_S)
    override = world.get(OVERRIDES.name, Key("default", "calm"))
    states = [entry["state"] for entry in lookup(override, "status", "acknowledgements") or ()]
    assert states == ["Honoring"]
    await world.sleep(LATE_S)


def pause(target: str, change: str) -> Obj:
    spec = {"target": target, "scope": "cluster", "reason": "calm", "expiresAfter": "10m"}
    return own("SchedulerOverride", "calm", {**spec, "changes": {change: True}})


def late(method: str, path: str, at_s: float = 0.0) -> SlowRequest:
    return SlowRequest(at_s=at_s, target="manager-*", match=f"{method} {path}", delay_s=LATE_S)


def test_a_new_revision_that_is_created_too_late_is_refused() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, Deployments, ReplicaSets, Acknowledgements)
        await world.apply(DEPLOYMENTS, deployment("web", 2))
        await world.sleep(6)
        await world.apply(DEPLOYMENTS, deployment("web", 2, tag=2))
        await world.sleep(1)
        await paused_meanwhile(world, "deployment/web", "pauseRollout")
        assert len(world.list("replicasets.apps")) == 1
        await end_override(world, "calm")
        await world.until(lambda: len(world.list("replicasets.apps")) == 2, within_s=30, what="it goes on")

    fault = late("POST", f"{APPS}/replicasets", at_s=5)
    told(story, faults=[fault], checkers=[HonouredOnceAcknowledged()])


def test_a_size_that_arrives_too_late_is_refused() -> None:
    async def story(world: World) -> None:
        scaler = AutoscalersOfLoad(Load())
        run_managers_and_agents(world, Deployments, ReplicaSets, DeploymentProgress, scaler, Acknowledgements)
        await world.apply(NODES, node("node-1"))
        web = deployment("web", 2)
        web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
        await world.apply(DEPLOYMENTS, web)
        await world.sleep(20)
        await world.apply(AUTOSCALERS, autoscaler("web", 6))
        await world.sleep(15.5)
        await paused_meanwhile(world, "deployment/web", "pauseAutoscaler")
        assert lookup(world.get(DEPLOYMENTS.name, Key("default", "web")), "spec", "replicas") == 2

    fault = late("PATCH", f"{APPS}/deployments/web", at_s=19)
    told(story, faults=[fault], checkers=[HonouredOnceAcknowledged()])


def test_room_is_not_released_too_late() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, RepairReservations, Acknowledgements)
        await world.apply(NODES, node("node-1"))
        expires = timestamp(world.engine.epoch_ns + world.engine.now_ns + 10 * 10**9)
        await world.apply(RESERVATIONS, reservation("web", expires=expires))
        await world.sleep(16)
        await paused_meanwhile(world, "workload/web", "pauseRepair")
        held = world.get(RESERVATIONS.name, Key("default", "web"))
        assert held is not None
        assert lookup(held, "status", "phase") is None

    told(story, faults=[late("PATCH", f"{OWN}/reservations/web/status")])


def test_who_sees_no_overrides_acts_on_nothing_that_a_new_one_may_pause_and_still_reports() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, Deployments, ReplicaSets, Acknowledgements)
        await world.apply(DEPLOYMENTS, deployment("web", 2))
        await world.sleep(6)
        await world.apply(OVERRIDES, pause("deployment/other", "pauseRollout"))
        await world.apply(DEPLOYMENTS, deployment("web", 3))
        await world.sleep(5)
        web = world.get(DEPLOYMENTS.name, Key("default", "web"))
        assert lookup(web, "status", "observedGeneration") == 2
        assert sizes(world) == [2]
        await world.until(lambda: sizes(world) == [3], within_s=60, what="it is scaled")

    told(story, faults=[HoldWatch(at_s=5, target="manager-*", match="/scheduleroverrides", for_s=20)])


def sizes(world: World) -> list[int]:
    return [replica_set["spec"]["replicas"] for replica_set in world.list("replicasets.apps")]
