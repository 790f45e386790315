"""The override controller in a world: acknowledgements, its status, its end, and the proof of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.control.worlds import told

from fathom.client.api import Resource
from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.overrides.acknowledging import Acknowledgements, acknowledging
from fathom.controllers.overrides.controller import Overrides
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import BUDGETS, DEPLOYMENTS, NODES
from fathom.sim.checkers import at_home
from fathom.sim.checkers.overrides import NothingIsLeftAfterTheProof
from fathom.sim.scenarios.drains import budget
from fathom.sim.scenarios.scheduling import node, run_scheduler
from fathom.sim.scenarios.staff import run_managers_and_agents
from fathom.sim.scenarios.workloads import deployment, unplaced
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.world import World

OVERRIDES = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
ROUTES = Resource("fathom.dev", "v1alpha1", "trafficroutes")
SERVICES = Resource("", "v1", "services")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)
SYSTEM = "fathom-system"
ZONES = {"node-1": "eu-west-a", "node-2": "eu-west-b"}
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
    run_managers_and_agents(world, Deployments, ReplicaSets, Overrides, Acknowledgements)
    run_scheduler(world, "scheduler")
    for name, zone in ZONES.items():
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
        run_managers_and_agents(world, Overrides, Acknowledgements)
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


def on_node(world: World, name: str) -> list[str]:
    return [
        str(metadata(pod)["name"])
        for pod in world.list("pods", "default")
        if lookup(pod, "spec", "nodeName") == name
    ]


def ready(world: World) -> int:
    pods = world.list("pods", "default")
    return sum((find_condition(conditions_of(pod), "Ready") or {}).get("status") == "True" for pod in pods)


def test_overrides_that_expire_together_end_one_after_the_other() -> None:
    names = [f"calm-{number}" for number in range(8)]

    async def story(world: World) -> None:
        await begin(world)
        for name in names:
            await world.apply(OVERRIDES, override(name, {"pauseRollout": True}, lasts="10s"))
        ended_s: dict[str, float] = {}
        while len(ended_s) < len(names):
            await world.sleep(0.05)
            for name in names:
                if condition(world, name, "RepairComplete")[0] != "None":
                    ended_s.setdefault(name, world.now_s)
        first, last = min(ended_s.values()), max(ended_s.values())
        assert 0.5 < last - first < 3.0, ended_s

    told(story)


def test_a_drain_moves_the_pods_of_its_nodes_within_their_budgets_and_leaves_nothing_behind() -> None:
    async def story(world: World) -> None:
        await begin(world)
        run_controllers(world, "budgets", DisruptionBudgets)
        await world.apply(DEPLOYMENTS, unplaced("web", 4))
        await world.apply(BUDGETS, budget("web"))
        await until(world, lambda: ready(world) == 4 and bool(on_node(world, "node-1")), "web is on both")
        drain = override("drain", {"drain": True}, target="node/node-1", lasts="10m")
        await world.apply(OVERRIDES, drain, namespace=SYSTEM)
        await until(world, lambda: not on_node(world, "node-1"), "node-1 is empty")
        await until(world, lambda: ready(world) == 4, "its pods run elsewhere")
        states = {each["name"]: each["state"] for each in status_of(world, "drain", SYSTEM)["changes"]}
        assert states == {"drain": "InForce"}
        assert status_of(world, "drain", SYSTEM)["affectedControllers"] == [
            "scheduler",
            "override-controller",
        ]
        await world.delete(OVERRIDES, "drain", namespace=SYSTEM)

    told(story, checkers=[*at_home(), NothingIsLeftAfterTheProof()])


def test_an_override_is_not_active_before_a_deaf_controller_has_observed_it() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, Overrides)
        run_controllers(world, "scaling", acknowledging("autoscaler"))
        await world.sleep(2)
        world.deafen("scaling", "/scheduleroverrides", for_s=20)
        await world.apply(OVERRIDES, override("calm", {"pauseAutoscaler": True}))
        await world.sleep(10)
        assert condition(world, "calm", "SchedulerOverrideObserved") == ("False", "Waiting")
        assert status_of(world, "calm")["active"] is False
        await until(world, lambda: status_of(world, "calm").get("active") is True, "it hears of it")

    told(story)


def test_the_scheduler_reports_that_the_controllers_have_stopped_until_they_are_back() -> None:
    """They write every other condition of an override, and cannot write this one."""

    async def story(world: World) -> None:
        lease = "fathom-system/controllers"
        run_controllers(world, "manager", Deployments, Overrides, Acknowledgements, lease=lease)
        run_scheduler(world, "scheduler", lease="fathom-system/scheduler")
        await world.apply(NODES, node("node-1", zone="eu-west-a"))
        await world.apply(OVERRIDES, override("calm", {"pauseRollout": True, "avoidZones": ["eu-west-a"]}))
        await world.apply(OVERRIDES, override("short", {"avoidZones": ["eu-west-a"]}, lasts="10s"))
        await until(world, lambda: status_of(world, "calm").get("active") is True, "it is active")
        await until(world, lambda: condition(world, "short", "RepairComplete")[0] == "True", "it is over")
        assert condition(world, "calm", "Degraded") == ("False", "AllRunning")
        world.crash("manager", restart_after_s=300)
        await until(
            world,
            lambda: condition(world, "calm", "Degraded") == ("True", "AcknowledgerStopped"),
            "somebody says that they have stopped",
        )
        stored = world.get(OVERRIDES.name, Key("default", "calm")) or {}
        said = find_condition(conditions_of(stored), "Degraded") or {}
        words = "deployment-controller does not renew its lease: it may have stopped"
        assert said["message"] == words
        assert condition(world, "short", "Degraded") == ("False", "Ended")
        await world.sleep(300)
        await until(world, lambda: condition(world, "calm", "Degraded")[0] == "False", "they are back")

    told(story)


def test_a_role_made_under_break_glass_is_named_until_somebody_removes_it() -> None:
    async def story(world: World) -> None:
        await begin(world)
        allowed = {"name": "glass", "annotations": {"fathom.dev/break-glass": "true"}}
        await world.apply(CLUSTER_ROLES, {"metadata": allowed, "rules": []})
        made = await world.apply(OVERRIDES, override("glass", {"breakGlassRole": "glass"}, lasts="10s"))
        marks = {"fathom.dev/break-glass": metadata(made)["uid"]}
        await world.apply(ROLES, {"metadata": {"name": "broad", "annotations": marks}, "rules": []})
        await until(
            world, lambda: condition(world, "glass", "RepairComplete") == ("False", "Residue"), "it is named"
        )
        assert status_of(world, "glass")["residue"] == [
            {"effect": "role", "object": "Role default/broad", "message": "it was made under break-glass"}
        ]
        await world.delete(ROLES, "broad")
        await until(world, lambda: condition(world, "glass", "RepairComplete")[0] == "True", "it is proven")

    told(story)


IN_FORCE = {("InForce", "RolloutPaused"), ("InForce", "RouteWritten")}


@pytest.mark.parametrize(
    ("here", "states", "routes"),
    [(True, IN_FORCE, ["override-shift"]), (False, {("NoMatch", "NotInScope")}, [])],
)
def test_a_shift_of_traffic_and_a_pause_are_for_a_workload_that_is_in_their_scope(
    here: bool, states: set[tuple[str, str]], routes: list[str]
) -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.apply(DEPLOYMENTS, deployment("web", 1))
        labels = lookup(deployment("web", 1), "spec", "template", "metadata", "labels")
        spec = {"selector": labels, "ports": [{"port": 80}]}
        await world.apply(SERVICES, {"metadata": {"name": "web"}, "spec": spec})
        await until(world, lambda: ready(world) == 1, "web is ready")
        (zone,) = (zone for name, zone in ZONES.items() if bool(on_node(world, name)) is here)
        shift = override("shift", {"trafficWeights": {"eu-west-b": 100}, "pauseRollout": True})
        shift["spec"]["scope"] = f"zone/{zone}"
        await world.apply(OVERRIDES, shift)
        await world.sleep(20)
        changes = status_of(world, "shift")["changes"]
        assert {(each["state"], each["reason"]) for each in changes} == states
        assert [metadata(route)["name"] for route in world.list(ROUTES.name)] == routes

    told(story)


def test_a_route_that_a_person_wrote_meanwhile_stays_as_that_person_wrote_it() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.apply(DEPLOYMENTS, deployment("web", 1))
        labels = lookup(deployment("web", 1), "spec", "template", "metadata", "labels")
        spec = {"selector": labels, "ports": [{"port": 80}]}
        await world.apply(SERVICES, {"metadata": {"name": "web"}, "spec": spec})
        weights = {"eu-west-a": 0, "eu-west-b": 100}
        await world.apply(OVERRIDES, override("shift", {"trafficWeights": weights}, lasts="30s"))
        key = Key("default", "override-shift")
        await until(world, lambda: world.get(ROUTES.name, key) is not None, "a route is created")
        by_hand = [{"zone": "eu-west-b", "weight": 7}]
        await world.api.patch(ROUTES, "default", key.name, {"spec": {"routes": by_hand}})
        await until(
            world,
            lambda: (
                "RouteKept" in {each["reason"] for each in status_of(world, "shift").get("changes") or ()}
            ),
            "the change is declined",
        )
        await until(world, lambda: condition(world, "shift", "RepairComplete")[0] == "True", "it is proven")
        assert lookup(world.get(ROUTES.name, key), "spec", "routes") == by_hand

    told(story)


def test_an_acknowledgement_waits_for_a_pass_that_began_before_the_override_came() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.apply(DEPLOYMENTS, unplaced("web", 1))
        await until(world, lambda: ready(world) == 1, "web is ready")
        async with world.held("PATCH /apis/apps/v1/namespaces/default/replicasets"):
            await world.apply(
                DEPLOYMENTS, unplaced("web", 2)
            )  # A pass of the Deployment's controller begins.
            await world.sleep(1)
            await world.apply(OVERRIDES, override("calm", {"pauseRollout": True}))
            await world.sleep(5)
            assert status_of(world, "calm")["active"] is False
        await until(world, lambda: status_of(world, "calm").get("active") is True, "the pass has ended")

    told(story)
