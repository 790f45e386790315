"""The override controller in a world: acknowledgements, its status, its end, and the proof of it."""

from __future__ import annotations

from collections.abc import Callable

from tests.control.worlds import told

from fathom.client.api import Resource
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.overrides.acknowledging import Acknowledgements
from fathom.controllers.overrides.controller import Overrides
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.sim.scenarios.objects import NODES
from fathom.sim.scenarios.scheduling import node, run_scheduler
from fathom.sim.scenarios.staff import employ
from fathom.sim.scenarios.workloads import DEPLOYMENTS, deployment
from fathom.sim.world.world import World

OVERRIDES = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
ROUTES = Resource("fathom.dev", "v1alpha1", "trafficroutes")
SERVICES = Resource("", "v1", "services")
LESSON = {
    "pauseAutoscaler": True,
    "avoidZones": ["eu-west-a"],
    "allowReservedCapacityClass": "recovery",
}


def override(name: str, changes: Obj, *, target: str = "workload/web", lasts: str = "45m") -> Obj:
    spec = {
        "target": target,
        "scope": "cluster",
        "reason": "a test",
        "expiresAfter": lasts,
        "changes": changes,
    }
    meta = {"name": name}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": meta,
        "spec": spec,
    }


def status_of(world: World, name: str, namespace: str = "default") -> Obj:
    return lookup(world.get(OVERRIDES.name, Key(namespace, name)), "status") or {}


def condition(world: World, name: str, type_: str, namespace: str = "default") -> tuple[str, str]:
    obj = world.get(OVERRIDES.name, Key(namespace, name)) or {}
    found = find_condition(conditions_of(obj), type_) or {}
    return str(found.get("status")), str(found.get("reason"))


async def begin(world: World) -> None:
    employ(world, Deployments, ReplicaSets, Overrides, Acknowledgements)
    run_scheduler(world, "scheduler")
    for name, zone in (("node-1", "eu-west-a"), ("node-2", "eu-west-b")):
        await world.apply(NODES, node(name, zone=zone))


async def until(world: World, check: Callable[[], bool], what: str) -> None:
    await world.until(check, within_s=60, what=what)


def test_the_lessons_override_is_active_once_every_affected_controller_has_observed_it() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.apply(OVERRIDES, override("recovery", LESSON))
        await until(world, lambda: status_of(world, "recovery").get("active") is True, "it is active")
        status = status_of(world, "recovery")
        assert status["affectedControllers"] == ["scheduler", "autoscaler", "quota-controller"]
        assert status["observedGeneration"] == 1
        states = {entry["controller"]: entry["state"] for entry in status["acknowledgements"]}
        assert states == {"scheduler": "Honoring", "autoscaler": "Honoring", "quota-controller": "Honoring"}
        assert condition(world, "recovery", "SchedulerOverrideObserved") == ("True", "AllAcknowledged")
        assert condition(world, "recovery", "Effective") == ("False", "NothingMatches")
        await world.apply(DEPLOYMENTS, deployment("web", 1))
        await until(
            world,
            lambda: condition(world, "recovery", "Effective") == ("True", "InForce"),
            "it avoids a zone that exists",
        )
        states = {change["name"]: change["reason"] for change in status_of(world, "recovery")["changes"]}
        assert states == {
            "pauseAutoscaler": "NoAutoscaler",
            "avoidZones": "NodesAvoided",
            "allowReservedCapacityClass": "ClassMissing",
        }

    told(story)


def test_an_override_that_nobody_changes_is_not_written_again() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.apply(OVERRIDES, override("recovery", LESSON))
        await until(world, lambda: status_of(world, "recovery").get("active") is True, "it is active")
        await world.sleep(5)
        before = world.get(OVERRIDES.name, Key("default", "recovery")) or {}
        await world.sleep(60)
        after = world.get(OVERRIDES.name, Key("default", "recovery")) or {}
        assert metadata(before)["resourceVersion"] == metadata(after)["resourceVersion"]

    told(story)


def test_an_expired_override_stays_as_a_record_with_its_proof_and_a_deleted_one_goes() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.apply(OVERRIDES, override("short", {"pauseRollout": True}, lasts="10s"))
        await until(world, lambda: status_of(world, "short").get("active") is True, "it is active")
        await until(
            world,
            lambda: condition(world, "short", "RepairComplete") == ("True", "NothingLeft"),
            "its end is proven",
        )
        obj = world.get(OVERRIDES.name, Key("default", "short")) or {}
        assert metadata(obj)["finalizers"] == ["fathom.dev/override"]
        assert lookup(obj, "status", "active") is False
        assert condition(world, "short", "Effective") == ("False", "Ended")
        await world.delete(OVERRIDES, "short")
        await until(
            world, lambda: world.get(OVERRIDES.name, Key("default", "short")) is None, "it is removed"
        )

    told(story)


def test_a_scheduler_that_has_stopped_degrades_the_overrides_that_it_acknowledged() -> None:
    async def story(world: World) -> None:
        employ(world, Overrides, Acknowledgements)
        run_scheduler(world, "scheduler", lease="fathom-system/scheduler")
        await world.apply(NODES, node("node-1", zone="eu-west-a"))
        await world.apply(OVERRIDES, override("recovery", {"avoidZones": ["eu-west-a"]}))
        await until(world, lambda: status_of(world, "recovery").get("active") is True, "it is active")
        assert condition(world, "recovery", "Degraded") == ("False", "AllRunning")
        world.kill("scheduler")
        await until(
            world,
            lambda: condition(world, "recovery", "Degraded") == ("True", "AcknowledgerStopped"),
            "it says that its acknowledger has stopped",
        )

    told(story)


def test_traffic_weights_are_written_to_the_route_and_restored_at_the_end() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.apply(DEPLOYMENTS, deployment("web", 1))
        ports = [{"port": 80}]
        labels = lookup(deployment("web", 1), "spec", "template", "metadata", "labels")
        await world.apply(
            SERVICES, {"metadata": {"name": "web"}, "spec": {"selector": labels, "ports": ports}}
        )
        before = [{"zone": "eu-west-a", "weight": 100}]
        route = {"metadata": {"name": "web"}, "spec": {"service": "web", "routes": before}}
        await world.apply(ROUTES, {"kind": "TrafficRoute", "apiVersion": "fathom.dev/v1alpha1", **route})
        weights = {"eu-west-a": 0, "eu-west-b": 100}
        await world.apply(OVERRIDES, override("shift", {"trafficWeights": weights}, lasts="20s"))

        def routes() -> list[Obj]:
            return lookup(world.get(ROUTES.name, Key("default", "web")), "spec", "routes") or []

        await until(world, lambda: len(routes()) == 2, "the weights are shifted")
        await until(
            world, lambda: condition(world, "shift", "RepairComplete")[0] == "True", "its end is proven"
        )
        assert routes() == before
        assert not metadata(world.get(ROUTES.name, Key("default", "web")) or {}).get("annotations")

    told(story)
