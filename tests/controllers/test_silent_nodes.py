"""Nodes that fall silent together: what is done to one is done to all, and people are told, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from tests.control.worlds import told

from fathom.client.api import Resource
from fathom.model.conditions import conditions_of
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import DEPLOYMENTS
from fathom.sim.scenarios.real import NODES, deployment, run_real_cluster, until_ready
from fathom.sim.world.faults import AnyFault, Partition
from fathom.sim.world.world import World

pytestmark = pytest.mark.slow

MAPS = Resource("", "v1", "configmaps")
BRAKE, SHOWN = Key("fathom-system", "node-brake"), Key("fathom-system", "node-brake-status")
SILENT = NODES[:3]


def as_treated(node: Obj) -> tuple[object, ...]:
    """What was done to it."""
    ours = [one for one in conditions_of(node) if "heartbeat" not in str(one.get("type"))]
    said = tuple(sorted((one["type"], one["status"], one.get("reason")) for one in ours))
    taints = tuple(sorted((one["key"], one["effect"]) for one in lookup(node, "spec", "taints") or ()))
    return said, taints


def events_of(world: World, name: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for event in world.list("events"):
        if (
            lookup(event, "involvedObject", "name") == name
            and lookup(event, "involvedObject", "kind") == "Node"
        ):
            found[str(event["reason"])] += int(event.get("count") or 1)
    return dict(found)


def silence(*nodes: str, at_s: float = 30.0, for_s: float = 120.0) -> Sequence[AnyFault]:
    return [Partition(at_s=at_s, for_s=for_s, target=node) for node in nodes]


async def running(world: World) -> None:
    run_real_cluster(world, spare=False, events=True)
    await world.apply(DEPLOYMENTS, deployment("web", 10))
    await until_ready(world, "web", 10)
    await world.sleep(25 - world.now_s)


def test_nodes_that_fall_silent_together_are_treated_alike() -> None:
    async def story(world: World) -> None:
        await running(world)
        await world.sleep(100)
        treated = {as_treated(world.get("nodes", Key("", name)) or {}) for name in SILENT}
        assert len(treated) == 1, treated
        pods = [pod for pod in world.list("pods") if lookup(pod, "spec", "nodeName") in SILENT]
        ready = {next(one["status"] for one in conditions_of(pod) if one["type"] == "Ready") for pod in pods}
        assert ready == {"True"}, "the brake holds: nothing is taken out of service"

    for seed in "123":
        told(story, seed=seed, faults=silence(*SILENT))


def test_what_is_said_of_a_node_is_told_once_for_each_change() -> None:
    async def story(world: World) -> None:
        await running(world)
        await world.sleep(200)
        found = events_of(world, "node-1")
        assert {reason: found.get(reason) for reason in ("NodeSuspect", "NodeUnreachable", "NodeLost")} == {
            "NodeSuspect": 1,
            "NodeUnreachable": 1,
            "NodeLost": 1,
        }
        world.heal()
        await world.sleep(60)
        assert events_of(world, "node-1").get("NodeRecovered") == 1
        assert "NodeSuspect" not in events_of(world, "node-2")

    told(story, faults=silence("node-1", for_s=600.0))


def test_a_node_that_the_brake_holds_says_so_once_and_so_does_one_object() -> None:
    async def story(world: World) -> None:
        await running(world)
        await world.until(
            lambda: world.get("configmaps", SHOWN) is not None, within_s=60, what="the brake is shown"
        )
        calm = (world.get("configmaps", SHOWN) or {})["data"]
        assert (calm["holds"], calm["share_percent"], calm["engaged"]) == ("false", "55", "false")
        await world.sleep(100)
        held = (world.get("configmaps", SHOWN) or {})["data"]
        assert held["holds"] == "true"
        assert all(name in held["held"] for name in SILENT), held
        assert all(name not in held["held"] for name in NODES[3:]), held
        for name in SILENT:
            assert events_of(world, name).get("NodeReactionHeld") == 1, events_of(world, name)
        world.heal()
        await world.sleep(90)
        assert (world.get("configmaps", SHOWN) or {})["data"]["holds"] == "false"

    told(story, faults=silence(*SILENT))


def test_limits_that_are_set_are_shown_as_in_force() -> None:
    async def story(world: World) -> None:
        await running(world)
        await world.apply(
            MAPS, {"metadata": {"name": "node-brake"}, "data": {"engaged": "true"}}, "fathom-system"
        )
        await world.sleep(10)
        shown = (world.get("configmaps", SHOWN) or {})["data"]
        assert (shown["engaged"], shown["holds"]) == ("true", "true")
        await world.delete(MAPS, "node-brake", "fathom-system")
        await world.sleep(10)
        shown = (world.get("configmaps", SHOWN) or {})["data"]
        assert (shown["engaged"], shown["holds"]) == ("false", "false")

    told(story)
