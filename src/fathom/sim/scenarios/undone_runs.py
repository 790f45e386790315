"""Runs that are undone while people edit the same objects by hand, and requests of their steps are late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from fathom.kinds import runbook_run
from fathom.kinds.runbook import RunbookSpec
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import DEPLOYMENTS
from fathom.seams.streams import Streams
from fathom.sim.checkers.runs import of_runs
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.runbooks import NOTE, OPERATORS, RUN, WEB, OneHolderAtATime, Operator, StepsOnce
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.scenarios.stale_runbooks import make_run
from fathom.sim.scenarios.workloads import unplaced
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, CrashAtWrite, LoseReply, LoseRequest, SlowRequest
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World
from fathom.steer.record_writer import RUNS

PATCHES = "PATCH /apis/apps/v1/namespaces/default/deployments"
# A client gives a request up after 10 s, reads what came of it 2 s later, and tries again after 2 s more.
LATE_S = ((1.0, 8.0), (9.0, 18.0), (12.0, 14.0), (12.0, 14.0))
LASTS_S = 0.2  # A run without faults.
EDITED_FOR_S = 40.0
# When people begin to edit, and how long they wait between two edits at most.
EDITS_FROM_S, EDITS_EVERY_S = (0.0, 14.0), (6.0, 40.0)


def checkers() -> Sequence[Checker]:
    return [StepsOnce(), OneHolderAtATime(), *of_runs()]


def late_steps(seed: str) -> Sequence[AnyFault]:
    """Patches of steps are late or lost, or their replies are; or who sends them dies then."""
    rng = Streams(seed).stream("late-steps")
    faults: list[AnyFault] = []
    for _ in range(rng.randrange(4)):
        at_s, target = round(LASTS_S * rng.random(), 3), OPERATORS[rng.random() < 0.2]
        delay_s = round(rng.uniform(*rng.choice(LATE_S)), 3)
        slow = SlowRequest(at_s=at_s, target=target, match=PATCHES, delay_s=delay_s)
        others: tuple[AnyFault, ...] = (
            LoseReply(at_s=at_s, target=target, match=PATCHES),
            LoseRequest(at_s=at_s, target=target, match=PATCHES),
            CrashAtWrite(at_s=at_s, target=target, match=PATCHES, for_s=round(5 * rng.random(), 3)),
        )
        faults.append(slow if rng.random() < 0.6 else rng.choice(others))
    return sorted(faults, key=lambda fault: fault.at_s)


@scenario(Menu(processes=OPERATORS), faults_of=late_steps, checkers=checkers)
async def undone_among_others(world: World) -> None:
    """A run changes a workload, some fields more than once, and is undone from any of its steps; people scale
    and label the same workload by hand, and requests arrive late: each field has what it had before the run,
    or what a person has given it since."""
    await world.apply(DEPLOYMENTS, unplaced("web", 1))
    await make_run(world, _content(world))
    world.process(OPERATORS[0], Operator, who=OPERATORS[0], aborts=False)
    others = asyncio.get_running_loop().create_task(_edit(world))
    await world.sleep(world.rng.choice((1, 20)) + 20 * world.rng.random())
    world.process(OPERATORS[1], Operator, who=OPERATORS[1], aborts=True, regrets=True, impatience=0.5)
    await world.until(lambda: _phase(world) == runbook_run.ABORTED, within_s=300, what="the run is undone")
    others.cancel()
    await world.heal_and_settle(quiet_s=QUIET_S)


def _phase(world: World) -> object:
    return lookup(world.get(RUNS.name, RUN), "status", "phase")


def _content(world: World) -> RunbookSpec:
    """Some of these steps in some order, each of which may come twice, with other values."""
    steps: list[dict[str, Any]] = []
    for number in range(world.rng.randrange(2, 5)):
        word, replicas = f"w{number}", 2 + number
        restored: list[dict[str, Any]] = [
            {"scale": {"target": WEB, "replicas": replicas}},
            {"patch": {"target": WEB, "patch": {"metadata": {"labels": {"word": word}}}}},
            {
                "patch": {
                    "target": WEB,
                    "patch": {
                        "metadata": {"labels": {"word": None, "team": word}},
                        "spec": {"replicas": replicas},
                    },
                }
            },
        ]
        step = {"action": world.rng.choice(restored), "compensation": {"restore": True}}
        steps.append({"id": f"s{number}", **step})
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"by": "run"}}
    made = {"id": "note", "action": {"create": note}, "compensation": {"delete": NOTE}}
    steps.insert(world.rng.randrange(len(steps) + 1), made)
    return msgspec.convert({"steps": steps}, RunbookSpec)


async def _edit(world: World) -> None:
    """People change what the run changes, most of them once it has begun."""
    until_s, pause_s = world.now_s + EDITED_FOR_S, world.rng.choice(EDITS_EVERY_S)
    await world.sleep(world.rng.choice(EDITS_FROM_S))
    while world.now_s < until_s:
        await world.sleep(0.1 + pause_s * world.rng.random())
        await world.api.patch(DEPLOYMENTS, "default", "web", _by_hand(world))
        note = world.get(CONFIG_MAPS.name, Key("default", "note"))
        if note is not None and world.rng.random() < 0.2:
            edited = {"data": {"by": world.rng.choice(("ann", None))}}
            await world.api.patch(CONFIG_MAPS, "default", "note", edited)


def _by_hand(world: World) -> Obj:
    """Values that no step sets: whose a value is would be anybody's guess else."""
    if world.rng.random() < 0.5:
        return {"spec": {"replicas": world.rng.randrange(10, 15)}}
    value = f"by-hand-{world.rng.randrange(3)}"
    return {"metadata": {"labels": world.rng.choice(({"word": value}, {"team": value}, {"team": None}))}}


SCENARIOS: tuple[Scenario, ...] = (undone_among_others,)
