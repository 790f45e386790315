"""Kinds that do not fit into one page: a cache that asks the server how new it is waits for its watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fathom.client.api import PAGE_OBJECTS
from fathom.control.kit import Kit
from fathom.control.plan import Patch, Plan, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, Primary, Watch
from fathom.model.objects import Key, labels_of
from fathom.seams.streams import Streams
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, HoldWatch, LoseReply, Refuse
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

MARKER = "marker"
BEGIN_S = 6.0  # All objects have been created by then.
CHANGED = tuple(f"c-{number}" for number in range(4))


class Marker:
    """Writes the number of a config map a second time, into another label."""

    name = "marker"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(CONFIG_MAP, conditions=False),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        seen = self._kit.snapshot()
        obj = seen.get("ConfigMap", key)
        if obj is None or labels_of(obj).get("mark") == labels_of(obj).get("number"):
            return ReconcileResult.never()
        patch = {"metadata": {"labels": {"mark": labels_of(obj)["number"]}}}
        plan = Plan(patches=(Patch(target("ConfigMap", obj), patch),), why="mark")
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=seen))


def checkers() -> Sequence[Checker]:
    return at_home()


def unread(seed: str) -> Sequence[AnyFault]:
    """Writes whose outcome cannot be read either, while events are late."""
    rng, faults = Streams(seed).stream("unread"), list[AnyFault]()
    for turn in range(3):
        at_s = BEGIN_S + 15 * turn + 3 * rng.random()
        faults += (
            LoseReply(at_s=at_s, target=MARKER, match="PATCH", told_s=0.2),
            Refuse(at_s=at_s, target=MARKER, match="GET /api/v1/namespaces/", status=503, times=9, for_s=6),
            HoldWatch(at_s=at_s, target=MARKER, match="/configmaps", for_s=8 + 4 * rng.random()),
        )
    return faults


@scenario(Menu(processes=(MARKER,), kinds=("/configmaps",)), faults_of=unread, checkers=checkers, scale=45)
async def one_of_many(world: World) -> None:
    """Some of five hundred objects change while answers get lost and events are late: whoever has asked the
    server how new his cache is has what the server had then."""
    for number in range(PAGE_OBJECTS + 1):
        await world.api.create(CONFIG_MAPS, "default", {"metadata": {"name": f"c-{number}"}})
    run_controllers(world, MARKER, Marker)
    for number in range(world.scale):
        await world.sleep(world.rng.random())
        meta = {"name": world.rng.choice(CHANGED), "labels": {"number": str(number)}}
        await world.apply(CONFIG_MAPS, {"metadata": meta})
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


SCENARIOS: tuple[Scenario, ...] = (one_of_many,)
