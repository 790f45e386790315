"""Runs of runbooks while signs of regression come and go, the data of their conditions is missing now and
then, and other people make objects with the names of those that the runs make and delete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from fathom.kinds import runbook_run
from fathom.kinds.runbook import RunbookSpec
from fathom.model.objects import Key, Obj, lookup, uid_of
from fathom.model.resources import DEPLOYMENTS
from fathom.sim.checkers.runs import of_runs
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.runbooks import NOTE, OPERATORS, RUN, WEB, Operator
from fathom.sim.scenarios.staff import QUIET_S, all_but
from fathom.sim.scenarios.stale_runbooks import (
    INCOMPLETE,
    MAX_AGE_S,
    MISSING,
    SIGNAL,
    STALE,
    WRONG,
    Reporter,
    make_run,
)
from fathom.sim.scenarios.workloads import unplaced
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World
from fathom.steer.record_writer import RUNS

SIGNS = "signs"
STEPS = ("note", "grow", "tidy", "wait", "label")
# Mostly longer than the last look may be ago.
FORM_LASTS_S = 40.0
LASTS_S = 120.0
FORMS = ("", STALE, INCOMPLETE, MISSING, WRONG)  # Of the signal.
ENDED = (runbook_run.SUCCEEDED, runbook_run.ABORTED)


def checkers() -> Sequence[Checker]:
    return of_runs()


@scenario(
    Menu(
        processes=OPERATORS,
        kinds=("/runbookruns", "/configmaps", "/deployments"),
        seconds=LASTS_S / 2,
        most=3,
        without=all_but("crash", "crash-at-write", "lose-reply", "slow-reply", "commit-unknown"),
    ),
    checkers=checkers,
    scale=4,
    timed=True,
)
async def runs_are_watched(world: World) -> None:
    """Two people carry out a run, at the same moment if it comes so; signs of regression come, and its steps
    stop; its signal is stale, incomplete or missing, and it waits; objects are made again by others, and it
    leaves them alone."""
    reporter = Reporter()
    await world.apply(CONFIG_MAPS, {**_map(SIGNS), "data": dict.fromkeys(STEPS, "good")})
    await world.apply(CONFIG_MAPS, {**_map(SIGNAL), "data": {"observedAt": "", "lag": ""}})
    await world.apply(CONFIG_MAPS, _map("old"))
    await world.apply(DEPLOYMENTS, unplaced("web", 1))
    reporter.form = world.rng.choice(FORMS)
    await reporter.write(world)
    aborts = world.rng.random() < 0.7
    for name in OPERATORS:
        world.process(name, Operator, who=name, aborts=False, at_once=True)
    others = asyncio.get_running_loop().create_task(_make_again(world))
    for _ in range(world.scale):
        await _live(world, reporter)
    reporter.form = ""
    world.heal()
    await _say(world, *STEPS, word="good")
    if aborts or not await _ends(world, reporter):
        for name in OPERATORS:
            world.kill(name)
        world.process("closer", Operator, who="closer", aborts=True, at_once=False)
    others.cancel()
    assert await _ends(world, reporter), world.get(RUNS.name, RUN)
    await world.settle(quiet_s=QUIET_S)


async def _ends(world: World, reporter: Reporter) -> bool:
    until_s = world.now_s + 90
    while world.now_s < until_s and _phase(world) not in ENDED:
        await reporter.write(world)
        await world.sleep(4)
    return _phase(world) in ENDED


def _phase(world: World) -> object:
    return lookup(world.get(RUNS.name, RUN), "status", "phase")


def _map(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


# The runbook.


def _content(world: World) -> RunbookSpec:
    """Some of these steps, in some order; each has a sign of its own that it went wrong."""
    actions: dict[str, dict[str, Any]] = {
        "note": {
            "action": {"create": {**_map("note"), "data": {"by": "run"}}},
            "compensation": {"delete": NOTE},
        },
        "grow": {"action": {"scale": {"target": WEB, "replicas": 3}}, "compensation": {"restore": True}},
        "tidy": {
            "action": {"delete": {"apiVersion": "v1", "kind": "ConfigMap", "name": "old"}},
            "reversible": False,
        },
        "wait": {"action": {"wait": {"about": "the lag"}}},
        "label": {
            "action": {"patch": {"target": WEB, "patch": {"metadata": {"labels": {"word": "moin"}}}}},
            "compensation": {"restore": True},
        },
    }
    low = {"name": "lag-is-low", "expression": f"{SIGNAL}.data.lag == 'low'"}
    chosen = world.rng.sample([name for name in STEPS if name != "wait"], world.rng.randrange(2, len(STEPS)))
    if world.rng.random() < 0.6:
        chosen.insert(world.rng.randrange(1, len(chosen) + 1), "wait")
    steps = []
    for name in chosen:
        sign = {"name": f"bad-{name}", "expression": f"{SIGNS}.data.{name} == 'bad'"}
        if world.rng.random() < 0.3:
            sign["then"] = "undo"
        waits = {"expect": [low]} if name == "wait" or world.rng.random() < 0.2 else {}
        steps.append({"id": name, **actions[name], "stopIf": [sign], "timeout": "10m", **waits})
    return msgspec.convert(
        {
            "inputs": [
                {
                    "name": SIGNAL,
                    "object": {**_ref(SIGNAL)},
                    "timePath": "data.observedAt",
                    "maxAge": f"{MAX_AGE_S}s",
                },
                {"name": SIGNS, "object": _ref(SIGNS)},
            ],
            "steps": steps,
            "postconditions": [{**low, "name": "lag-stays-low", "for": world.rng.choice(("", "30s"))}],
            "postconditionsWithin": "10m",
            "unknownFor": "5m",
        },
        RunbookSpec,
    )


def _ref(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name}


# What happens around it.


async def _live(world: World, reporter: Reporter) -> None:
    """A while with a run, a new one if the last has ended. The signal changes its form, and perhaps there is
    a sign of regression."""
    rng = world.rng
    reporter.form = rng.choice(FORMS)
    await reporter.write(world)
    if _phase(world) in (None, *ENDED):
        await world.delete(RUNS, RUN.name)
        await make_run(world, _content(world))
    await world.sleep(6 * rng.random())
    sign = rng.choice(_first_steps(world))  # Mostly one that is done when the sign comes.
    await _say(world, sign, word=rng.choice(("bad", "bad", "good")))
    await _report(world, reporter, for_s=FORM_LASTS_S * (0.5 + 0.5 * rng.random()))
    if rng.random() < 0.6:
        await _remove_note(world)
    reporter.form = rng.choice(("", rng.choice(FORMS)))
    await _report(world, reporter, for_s=FORM_LASTS_S * rng.random())
    if rng.random() < 0.5:
        await _say(world, sign, word="good")


def _first_steps(world: World) -> list[str]:
    steps = lookup(world.get(RUNS.name, RUN), "spec", "content", "steps") or ()
    return [step["id"] for step in steps][:2]


async def _say(world: World, *signs: str, word: str) -> None:
    await world.api.patch(CONFIG_MAPS, "default", SIGNS, {"data": dict.fromkeys(signs, word)})


async def _report(world: World, reporter: Reporter, *, for_s: float) -> None:
    until_s = world.now_s + for_s
    while world.now_s < until_s:
        await reporter.write(world)
        await world.sleep(4.0)


async def _remove_note(world: World) -> None:
    note = world.get(CONFIG_MAPS.name, Key("default", "note"))
    if note is not None:
        await world.api.delete(CONFIG_MAPS, "default", "note", uid=uid_of(note))


async def _make_again(world: World) -> None:
    """Whatever is deleted here, somebody makes again under its name, mostly at once."""
    there: set[str] = set()
    while True:
        for name in ("old", "note"):
            if world.get(CONFIG_MAPS.name, Key("default", name)) is not None:
                there.add(name)
            elif name in there and world.rng.random() < 0.5:
                await world.api.create(CONFIG_MAPS, "default", _map(name))
                there.discard(name)
        await world.sleep(0.1)


SCENARIOS: tuple[Scenario, ...] = (runs_are_watched,)
