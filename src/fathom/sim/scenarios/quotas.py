"""Workloads want more than their quota allows, and the quota changes: its usage is right all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fathom.client.api import Api, Resource
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.resources import PODS, REPLICA_SETS, RESOURCE_QUOTAS
from fathom.model.user import MASTERS, User
from fathom.seams.process import Inside
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import ChildrenWithinBounds, OnePodPerSlot
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.objects import replica_set
from fathom.sim.scenarios.replicas import WORKLOADS, keep_changing, look_at_the_end
from fathom.sim.scenarios.staff import AGENT, MANAGERS, UNREST, all_but, come_to_rest, run_managers_and_agents
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

LIMITS = Resource("", "v1", "limitranges")
CHANGES = ("less-room", "more-room", "other-defaults")
ENOUGH = 20
EDITOR = "editor"


def quota(pods: int) -> Obj:
    return {
        "metadata": {"name": "room"},
        "spec": {"hard": {"pods": str(pods), "requests.cpu": str(pods), "count/configmaps": "10"}},
    }


def defaults(cpu: str) -> Obj:
    """Admission writes these into pods that have no requests or limits."""
    return {
        "metadata": {"name": "defaults"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": cpu}, "default": {"cpu": "1"}}]},
    }


def checkers() -> Sequence[Checker]:
    return [*at_home(), ChildrenWithinBounds(), OnePodPerSlot()]


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        servers=("api-1", "api-2"),
        kinds=("/pods", "/replicasets"),
        happenings=(*CHANGES, *UNREST, "move"),
        seconds=14,
        most=10,
    ),
    servers=2,
    checkers=checkers,
    scale=20,
)
async def quota_changes(world: World) -> None:
    """Workloads outgrow their quota, which shrinks and grows, and the defaults of admission change: the usage
    of the quota is right all the time, and in the end every workload has its pods."""
    troubles = run_managers_and_agents(world, ReplicaSets, servers=2)
    for name, work in _changes(world).items():
        world.happening(name, work)
    await world.apply(LIMITS, defaults("100m"))
    await world.apply(RESOURCE_QUOTAS, quota(8))
    await keep_changing(world, WORKLOADS)
    await world.apply(RESOURCE_QUOTAS, quota(ENOUGH))
    await come_to_rest(world, troubles)
    for name in WORKLOADS:
        await look_at_the_end(world, name)
    used = [lookup(quota_obj, "status", "used", "pods") for quota_obj in world.list("resourcequotas")]
    assert used == [str(len(world.list("pods")))], f"the quota reports {used} pods in use"
    assert all(lookup(pod, "spec", "containers")[0]["resources"]["requests"] for pod in world.list("pods")), [
        key_of(pod).name for pod in world.list("pods")
    ]


def _changes(world: World) -> dict[str, Callable[[], object]]:
    return {
        "less-room": lambda: world.soon(lambda: world.apply(RESOURCE_QUOTAS, quota(4))),
        "more-room": lambda: world.soon(lambda: world.apply(RESOURCE_QUOTAS, quota(9))),
        "other-defaults": lambda: world.soon(lambda: world.apply(LIMITS, defaults("200m"))),
    }


class QuotaEditor:
    """Edits, deletes and makes quotas anew through a server of its own, from the scenario's numbers."""

    def __init__(self, inside: Inside) -> None:
        self._api, self._rng = Api(inside.seam), inside.streams.stream("edits")
        inside.domain.create_task(self._run(), name=EDITOR)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0.6 * self._rng.random())
            spec = {"hard": {"count/configmaps": str(self._rng.randrange(4, 12)), "pods": "9"}}
            if self._rng.random() < 0.3:
                await self._make_anew(spec)
            else:
                await self._api.patch(RESOURCE_QUOTAS, "default", "shared", {"spec": spec})

    async def _make_anew(self, spec: Obj) -> None:
        try:
            current = await self._api.get(RESOURCE_QUOTAS, "default", "shared")
        except ApiError:
            return
        if current is not None:
            await self._api.delete(RESOURCE_QUOTAS, "default", "shared", uid=uid_of(current))
        await self._api.create(RESOURCE_QUOTAS, "default", {"metadata": {"name": "shared"}, "spec": spec})


@scenario(
    Menu(
        processes=(EDITOR,),
        servers=("api-1", "api-2"),
        seconds=25,
        most=10,
        without=all_but("stale-server", "slow-reply", "slow-request", "drop-watch"),
    ),
    servers=2,
    checkers=at_home,
    scale=60,
)
async def quota_edited_elsewhere(world: World) -> None:
    """Objects come and go through one API server while a quota is edited, deleted and made anew through
    another, which may be far behind: its use is right all the time."""
    await world.apply(
        RESOURCE_QUOTAS, {"metadata": {"name": "shared"}, "spec": {"hard": {"count/configmaps": "8"}}}
    )
    world.process(EDITOR, QuotaEditor, server=2, account=User("person", (MASTERS,)))
    for _ in range(world.scale):
        await world.sleep(0.5 * world.rng.random())
        name = f"counted-{world.rng.randrange(8)}"
        current = world.get("configmaps", Key("default", name))
        if current is None:
            await world.api.create(CONFIG_MAPS, "default", {"metadata": {"name": name}})
        else:
            await world.api.delete(CONFIG_MAPS, "default", name, uid=uid_of(current))
    world.kill(EDITOR)
    await world.heal_and_settle()


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        kinds=("/pods", "/replicasets"),
        happenings=("handover",),
        seconds=25,
        most=4,
    ),
    checkers=checkers,
    scale=40,
)
async def much_happens_while_there_is_no_room(world: World) -> None:
    """A workload outgrows its quota, and much happens to its pods meanwhile: nobody gives it up because of
    that, and when there is room it has all its pods within a minute."""
    troubles = run_managers_and_agents(world, ReplicaSets)
    await world.apply(LIMITS, defaults("100m"))
    await world.apply(RESOURCE_QUOTAS, quota(3))
    await world.apply(REPLICA_SETS, replica_set("web", 5))
    for number in range(world.scale):
        await world.sleep(0.8 * world.rng.random())
        pods = world.list("pods", "default")
        if pods:
            touched = {"metadata": {"labels": {"touched": str(number)}}}
            await world.api.patch(PODS, *key_of(world.rng.choice(pods)), touched)
    await world.apply(RESOURCE_QUOTAS, quota(ENOUGH))
    world.heal()
    await look_at_the_end(world, "web")
    await come_to_rest(world, troubles)


SCENARIOS: tuple[Scenario, ...] = (
    quota_changes,
    quota_edited_elsewhere,
    much_happens_while_there_is_no_room,
)
