"""A scheduler decides from a view in which the obstacles have not happened yet: a deleted or replaced pod, a
taken port, taken room, a spent quota, a cordoned or deleted node. The API server, which knows, refuses each
binding."""

from __future__ import annotations

from fathom.model.objects import Key, Obj, lookup, uid_of
from fathom.model.resources import NODES, PODS
from fathom.sim.scenarios.scheduling import (
    KINDS,
    QUOTAS,
    SCHEDULERS,
    checkers,
    node,
    pod,
    quota,
    run_scheduler,
)
from fathom.sim.scenarios.shared_agent import SharedAgent
from fathom.sim.scenarios.staff import AGENT, QUIET_S
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, HoldWatch
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

HELD = "example.com/held"
DEAF_S = 14.0
OLD_PODS: tuple[AnyFault, ...] = (
    HoldWatch(at_s=5.0, target=SCHEDULERS[0], match="/api/v1/pods", for_s=DEAF_S),
    HoldWatch(at_s=30.0, target=SCHEDULERS[0], match="/api/v1/nodes", for_s=DEAF_S),
    HoldWatch(at_s=30.0, target=SCHEDULERS[0], match="/tenantquotas", for_s=DEAF_S),
)


@scenario(Menu(processes=SCHEDULERS[:1], kinds=KINDS), scripted=OLD_PODS, checkers=checkers)
async def refused_from_an_old_view(world: World) -> None:
    """A scheduler has not heard of deleted pods, taken ports and room, a cordoned and a deleted node and a
    spent quota: the API server refuses each of its bindings, and a pod that waits for the quota is placed
    when it is raised."""
    run_scheduler(world, SCHEDULERS[0])
    run_controllers(world, AGENT, SharedAgent)
    for number in (1, 2, 3):
        await world.apply(NODES, _node(number, shut=number == 1))
    await world.apply(QUOTAS, quota("default", cpu="20"))
    for name in ("going", "ended", "replaced", "ported", "large"):
        await world.apply(PODS, _waiting_pod(name))
    await world.sleep(5.5 - world.now_s)
    await _change_pods_unseen(world)
    await world.apply(NODES, _node(1))  # The scheduler sees this, and places them all.
    await world.sleep(31.0 - world.now_s)
    for name in ("going", "ported"):
        assert not _node_of(world, name), f"{name} was bound to {_node_of(world, name)}"
    await _change_nodes_unseen(world)
    await world.sleep(10)
    await world.api.patch(PODS, "default", "going", {"metadata": {"finalizers": None}})
    world.heal()
    await world.sleep(20)  # Held events arrive now.
    await world.apply(QUOTAS, quota("default", cpu="20"))  # The last change lets one pod in.
    await world.settle(quiet_s=QUIET_S)
    assert _node_of(world, "beyond"), "beyond still waits although its quota has room"


async def _change_pods_unseen(world: World) -> None:
    """Waiting pods are deleted, fail or are replaced, and another pod takes the node."""
    current = world.get("pods", Key("default", "going"))
    assert current is not None
    await world.api.delete(PODS, "default", "going", uid=uid_of(current))
    await world.api.patch(PODS, "default", "ended", {"status": {"phase": "Failed"}}, subresource="status")
    await world.delete(PODS, "replaced")
    another = _waiting_pod("replaced")
    another["spec"]["nodeSelector"] = {"no": "where"}
    await world.apply(PODS, another)
    taken = _waiting_pod("taken", cpu="3")
    taken["spec"] |= {"nodeName": "node-1"}
    taken["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    await world.apply(PODS, taken)


async def _change_nodes_unseen(world: World) -> None:
    """A node is cordoned, another one deleted, and the quota is spent."""
    await world.apply(NODES, _node(2, shut=True))
    await world.delete(NODES, "node-3")
    for number in (2, 3):
        late = _waiting_pod(f"late-{number}")
        late["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"node-{number}"}
        await world.apply(PODS, late)
    await world.sleep(2)
    await world.apply(QUOTAS, quota("default", cpu="4"))
    await world.apply(NODES, _node(4))
    await world.apply(PODS, _waiting_pod("beyond"))


def _node(number: int, *, shut: bool = False) -> Obj:
    return node(f"node-{number}", zone=f"zone-{number}", cordoned=shut)


def _waiting_pod(name: str, *, cpu: str = "") -> Obj:
    """A pod that waits for the first node, which is cordoned."""
    obj = pod(name, cpu=cpu or {"large": "3", "beyond": "2"}.get(name, "500m"))
    obj["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-1"} if name != "beyond" else {}
    if name == "going":
        obj["metadata"]["finalizers"] = [HELD]
    if name == "ported":
        obj["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return obj


def _node_of(world: World, name: str) -> str:
    return str(lookup(world.get("pods", Key("default", name)) or {}, "spec", "nodeName") or "")


SCENARIOS: tuple[Scenario, ...] = (refused_from_an_old_view,)
