"""Who waits is woken by what could help, in a simulated cluster: long before the safety timer would look."""

from __future__ import annotations

from typing import Any

from tests.control.worlds import told

from fathom.client.api import Resource
from fathom.model.objects import Key, lookup
from fathom.model.resources import NODES, PODS
from fathom.schedule.loop.watched_kinds import QUOTA
from fathom.sim.scenarios.scheduling import node, pod, quota, run_scheduler
from fathom.sim.world.world import World

NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
SOON_S = 10  # The safety timer looks after a minute.


def is_placed(world: World, name: str) -> bool:
    return bool(lookup(world.get("pods", Key("default", name)), "spec", "nodeName"))


async def until_placed(world: World, name: str) -> None:
    await world.until(lambda: is_placed(world, name), within_s=SOON_S, what=f"{name} is placed")


def space(**labels: str) -> dict[str, Any]:
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default", "labels": labels}}


def test_a_namespace_that_becomes_another_tenants_takes_nothing_along() -> None:
    """What was placed stays charged to whom it was charged: the new tenant's quota is free."""

    async def story(world: World) -> None:
        run_scheduler(world, "scheduler")
        await world.apply(QUOTA.resource, quota("new", cpu="1"))
        await world.apply(NODES, node("node-1"))
        await world.apply(PODS, pod("first"))
        await until_placed(world, "first")
        await world.apply(NAMESPACES, space(**{"fathom.dev/tenant": "new"}))
        await world.sleep(2)
        await world.apply(PODS, pod("second"))
        await until_placed(world, "second")

    told(story)


def test_a_pod_that_keeps_away_comes_when_the_others_labels_change() -> None:
    async def story(world: World) -> None:
        run_scheduler(world, "scheduler")
        await world.apply(NODES, node("node-1"))
        await world.apply(PODS, pod("noisy", labels={"app": "noisy"}))
        await until_placed(world, "noisy")
        shy = pod("shy")
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}}
        shy["spec"]["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
        await world.apply(PODS, shy)
        await world.sleep(5)
        assert not is_placed(world, "shy")
        await world.apply(PODS, pod("noisy", labels={"app": "calm"}))
        await until_placed(world, "shy")

    told(story)
