"""How long the store keeps its history: five minutes, whatever the clocks of API servers have been before."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.seams.streams import Streams
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Crash, Skew
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.store_link import at_once
from fathom.sim.world.world import World
from fathom.store.protocol import Compacted

SERVERS = ("api-1", "api-2")
KEPT = "history is kept for five minutes, and then compacted"
# What is younger than the first can be read, and what is older than the second cannot: a mark is made every
# half minute, and a server that has just started may take as long again.
KEEPS_S, GOES_S = 300.0, 390.0
STEPS_S = (40.0, -40.0, 400.0, -400.0, 4000.0, -4000.0)
WRONG_S = 150.0  # How long clocks are wrong, and servers crash.
TURN_S = 15.0


def checkers() -> Sequence[Checker]:
    return at_home()


def wrong_clocks(seed: str) -> Sequence[AnyFault]:
    """Clocks of servers are set, forward and back, and servers crash."""
    rng = Streams(seed).stream("clocks")
    faults: list[AnyFault] = [
        Skew(at_s=WRONG_S * rng.random(), target=rng.choice(SERVERS), skew_s=rng.choice(STEPS_S))
        for _ in range(rng.randrange(4))
    ]
    faults += [
        Crash(at_s=WRONG_S * rng.random(), target=rng.choice(SERVERS), for_s=20 * rng.random())
        for _ in range(rng.randrange(3))
    ]
    return sorted(faults, key=lambda fault: fault.at_s)


@scenario(
    Menu(processes=SERVERS, servers=SERVERS, most=0), faults_of=wrong_clocks, servers=2, checkers=checkers
)
async def kept_for_a_while(world: World) -> None:
    """Objects change all the time while clocks of servers are wrong, and afterwards: from then on each
    revision can be read for five minutes, and not for much longer."""
    while world.now_s < WRONG_S:
        await _change(world)
    world.heal()
    right_s = world.now_s
    revisions: list[tuple[float, int]] = []  # When each was the newest.
    while world.now_s < right_s + 2 * GOES_S:
        revisions.append((world.now_s, world.engine.store.newest))
        await _change(world)
        for then_s, revision in revisions:
            _look_at(world, revision, age_s=world.now_s - then_s)
    await world.settle(quiet_s=5)


async def _change(world: World) -> None:
    data = {"number": str(world.rng.randrange(1000))}
    await world.apply(CONFIG_MAPS, {"metadata": {"name": "changes"}, "data": data})
    await world.sleep(TURN_S)


def _look_at(world: World, revision: int, *, age_s: float) -> None:
    is_there = _can_be_read(world, revision)
    if not is_there and age_s < KEEPS_S:
        world.broken(KEPT, f"revision {revision} was compacted after {age_s:.0f} s")
    if is_there and age_s > GOES_S:
        world.broken(KEPT, f"revision {revision} is not compacted after {age_s:.0f} s")


def _can_be_read(world: World, revision: int) -> bool:
    try:
        at_once(world.engine.store.range(f"/registry/{CONFIG_MAPS.name}/", revision=revision, limit=1))
    except Compacted:
        return False
    return True


SCENARIOS: tuple[Scenario, ...] = (kept_for_a_while,)
