"""The gate of a policy's rollout counts pods that wait because of the policy; a rollback is acknowledged."""

from __future__ import annotations

from tests.control.worlds import told

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import NODES, PODS
from fathom.schedule.policy_rollout.controller import PolicyRollouts
from fathom.sim.scenarios.scheduling import (
    POLICIES,
    QUOTAS,
    ROLLOUTS,
    node,
    own,
    pod,
    quota,
    run_scheduler,
)
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.world import World

BLOCKED = "fathom.dev/BlockedByPolicy"


async def begin(world: World, v5: Obj, *, hold: str = "20s") -> None:
    """Two zones, of which the second is full; and a rollout of v5 to all pods."""
    run_scheduler(world, "scheduler", names=("default-scheduler",))
    run_controllers(world, "rollouts", PolicyRollouts)
    await world.apply(NODES, node("node-1", zone="a"))
    await world.apply(NODES, node("node-2", zone="b", more={"cpu": "1"}))
    await world.apply(POLICIES, own("SchedulingPolicy", "v4", {}))
    await world.apply(POLICIES, own("SchedulingPolicy", "v5", v5))
    full = pod("full", cpu="1")
    full["spec"]["nodeName"] = "node-2"
    await world.apply(PODS, full)
    await world.sleep(3)
    spec = {"from": "v4", "to": "v5", "steps": [{"percent": 100, "hold": hold}]}
    await world.apply(ROLLOUTS, own("PolicyRollout", "canary", spec))
    await world.sleep(3)


def replica(name: str, *, cpu: str = "1") -> Obj:
    """A pod of one workload, by its labels: zones are compared by these."""
    return pod(name, cpu=cpu, labels={"app": "web"})


def status(world: World) -> Obj:
    return lookup(world.get(ROLLOUTS.name, Key("", "canary")), "status") or {}


def phase(world: World) -> str:
    return str(status(world).get("phase"))


def is_blocked(world: World, name: str) -> str | None:
    """The policy that the pod waits because of, and whether it still does; None if it never did."""
    condition = find_condition(conditions_of(world.get("pods", Key("default", name)) or {}), BLOCKED)
    return None if condition is None else f"{condition['status']} {condition['reason']}"


def test_pods_that_wait_for_quota_do_not_send_a_policy_back() -> None:
    async def story(world: World) -> None:
        await begin(world, {"maxZoneSkew": 5})
        await world.apply(QUOTAS, quota("default", cpu="2"))
        await world.sleep(1)
        await world.apply(PODS, replica("first"))
        await world.apply(PODS, replica("second"))
        await world.until(lambda: phase(world) != "Canary", within_s=120, what="it ends")
        assert phase(world) == "Complete", status(world)
        waiting = [pod_ for pod_ in world.list("pods") if not lookup(pod_, "spec", "nodeName")]
        assert len(waiting) == 1, "no pod waited, so nothing was tried"
        assert is_blocked(world, str(lookup(waiting[0], "metadata", "name"))) is None

    told(story)


def test_a_pod_that_the_earlier_policy_would_place_sends_the_new_one_back() -> None:
    async def story(world: World) -> None:
        await begin(world, {"maxZoneSkew": 1}, hold="10m")
        await world.apply(PODS, replica("first"))
        await world.sleep(1)
        await world.apply(PODS, replica("second"))
        await world.until(
            lambda: is_blocked(world, "second") == "True v5", within_s=10, what="it says that v5 is why"
        )
        await world.until(lambda: phase(world) == "RolledBack", within_s=20, what="it is sent back")
        await world.until(
            lambda: bool(lookup(world.get("pods", Key("default", "second")), "spec", "nodeName")),
            within_s=20,
            what="the pod is placed under v4",
        )
        assert is_blocked(world, "second") is None, "a bound pod waits for nothing"

    told(story)


def test_a_rollback_has_an_activation_that_the_scheduler_acknowledges() -> None:
    async def story(world: World) -> None:
        await begin(world, {"maxZoneSkew": 1}, hold="10m")
        await world.apply(PODS, replica("first"))
        await world.sleep(1)
        began = int(status(world)["activationRevision"])
        await world.apply(PODS, replica("second"))
        await world.until(lambda: phase(world) == "RolledBack", within_s=30, what="it is sent back")

        def acknowledged() -> bool:
            activation = int(status(world).get("activationRevision") or 0)
            reports = [int(report["revision"]) for report in status(world).get("observedBy") or ()]
            return activation > began and bool(reports) and min(reports) >= activation

        await world.until(acknowledged, within_s=30, what="the scheduler acknowledges the rollback")
        condition = find_condition(status(world)["conditions"], "Progressing") or {}
        assert (condition["reason"], condition["status"]) == ("RolledBack", "False")
        assert condition["message"].startswith("1 of 3 pods are"), condition["message"]

    told(story)
