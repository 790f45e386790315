"""External objects: one is created for every claim, and removed when the claim is deleted."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Key, Obj
from fathom.model.resources import NAMESPACES
from fathom.sim.checkers import at_home
from fathom.sim.checkers.final_state import WhenSettled, claims_that_stay, claims_without_disk, leaked_disks
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.disk_controller import CLAIM, CLOUD, Cleanup
from fathom.sim.scenarios.staff import AT_THE_TOP, MANAGERS, come_to_rest, manage
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

KINDS = ("/configmaps", "/secrets")


def claim(name: str) -> Obj:
    return {"metadata": {"name": name, "labels": {CLAIM: "yes"}}}


def checkers() -> Sequence[Checker]:
    return [
        *at_home(),
        WhenSettled("nothing leaked when settled", leaked_disks),
        WhenSettled("converges after a crash at any write", claims_without_disk),
        WhenSettled("deleted claims go away", claims_that_stay),
    ]


@scenario(
    Menu(processes=MANAGERS, kinds=KINDS, happenings=AT_THE_TOP, seconds=14, most=8),
    checkers=checkers,
    scale=20,
)
async def claims(world: World) -> None:
    """Claims are created, deleted and created again under the same names: each has its disk, and no disk is
    left behind."""
    manage(world, Cleanup, kinds=KINDS)
    await world.apply(NAMESPACES, {"metadata": {"name": CLOUD}})
    for _ in range(world.scale):
        await world.sleep(1.5 * world.rng.random())
        name = f"claim-{world.rng.randrange(4)}"
        existing = world.get(CONFIG_MAPS.name, Key("default", name))
        if existing is None:
            await world.apply(CONFIG_MAPS, claim(name))
        else:
            await world.api.delete(CONFIG_MAPS, "default", name, uid=existing["metadata"]["uid"])
    await come_to_rest(world)


SCENARIOS: tuple[Scenario, ...] = (claims,)
