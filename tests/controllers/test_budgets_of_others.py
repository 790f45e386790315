"""Budgets over pods of owners that no cache has, on a real server in a simulated world."""

from __future__ import annotations

from tests.control.worlds import told

from fathom.client.api import Resource
from fathom.control.ownership import controller_ref
from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import JOBS, PODS
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.objects import template
from fathom.sim.scenarios.staff import come_to_rest, run_managers_and_agents
from fathom.sim.world.world import World

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets")
LABELS = {"app": "web"}


def stateful_set(replicas: int) -> Obj:
    spec = {"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": LABELS}}
    made = template("web")
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {**spec, "template": {**made, "metadata": {"labels": LABELS}}},
    }


async def owned_by(world: World, resource: Resource, owner: Obj, *names: str) -> None:
    await world.apply(resource, owner)
    there = world.get(resource.name, Key("default", owner["metadata"]["name"]))
    assert there is not None
    reference = controller_ref({**owner, **there})
    for name in names:
        meta = {"name": name, "labels": LABELS, "ownerReferences": [reference]}
        await world.apply(PODS, {"metadata": meta, "spec": template("web")["spec"]})


async def judged(world: World, **spec: object) -> Obj:
    made = {"metadata": {"name": "web"}, "spec": {**spec, "selector": {"matchLabels": LABELS}}}
    await world.apply(BUDGETS, made)
    await come_to_rest(world)
    found = lookup(world.get(BUDGETS.name, Key("default", "web")), "status")
    return {**found, "reason": found["conditions"][0]["reason"]}


def test_the_size_of_any_owner_that_has_a_scale_counts() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, DisruptionBudgets)
        await owned_by(world, STATEFUL_SETS, stateful_set(4), "web-0", "web-1")
        found = await judged(world, maxUnavailable="50%")
        assert (found["expectedPods"], found["desiredHealthy"]) == (4, 2)

    told(story)


def test_an_owner_that_has_no_scale_leaves_nothing_to_count_with() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, DisruptionBudgets)
        idle = job("sum", completions=9, parallelism=0, runs_s=1)
        await owned_by(world, JOBS, idle, "sum-0")
        found = await judged(world, maxUnavailable=1)
        assert (found["disruptionsAllowed"], found["reason"]) == (0, "SyncFailed")

    told(story)
