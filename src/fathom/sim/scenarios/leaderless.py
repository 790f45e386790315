"""Nobody leads for a while, and people go on: the next leader finds what became of everything meanwhile, also
what is left of objects that are gone."""

from __future__ import annotations

from fathom.sim.scenarios import ordinary
from fathom.sim.scenarios.ordinary import KINDS, TOUCHES, WORKLOAD_NAMES, remove
from fathom.sim.scenarios.staff import AGENT, MANAGERS, QUIET_S, all_but
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

ABSENCES = 2


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        kinds=KINDS,
        seconds=60,
        most=3,
        without=all_but("hold-watch", "drop-watch", "slow-reply", "slow-request", "lose-reply", "compact"),
    ),
    checkers=ordinary.checkers,
    scale=5,
)
async def nobody_led_meanwhile(world: World) -> None:
    """All managers are away while ordinary things are done to workloads, of which some are removed and made
    again. A new leader lists what there is, and hears of nothing else: it finishes all that."""
    ordinary.run_all(world)
    for _ in range(ABSENCES):
        await ordinary.begin(world)
        await world.sleep(4 + 6 * world.rng.random())
        away_s = world.rng.choice((15.0, 30.0))
        back_s = world.now_s + away_s
        for name in MANAGERS:
            world.crash(name, restart_after_s=away_s)
        for resource, name in WORKLOAD_NAMES:
            if world.rng.random() < 0.5:
                await remove(world, resource, name)
        for _ in range(world.scale):
            await world.rng.choice(TOUCHES)(world)
            await world.sleep(2 * world.rng.random())
        await world.sleep(max(0.0, back_s - world.now_s))
        await world.heal_and_settle(quiet_s=QUIET_S)


SCENARIOS: tuple[Scenario, ...] = (nobody_led_meanwhile,)
