"""A runbook whose conditions read data that is stale, incomplete or missing; and one whose steps were changed
after it began."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.client.outcomes import Committed
from fathom.kinds import runbook_run
from fathom.kinds.runbook import RunbookSpec, spec_hash
from fathom.kinds.shape import API_VERSION
from fathom.model.objects import Key, Obj, lookup
from fathom.model.times import SECOND_NS, moment_ns, timestamp
from fathom.sim.checkers.runs import of_runs
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.runbooks import AGENT, OPERATORS, RUN, Operator, StepsOnce
from fathom.sim.scenarios.staff import QUIET_S, all_but
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Pause
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World
from fathom.steer.record_writer import RUNS, RunLost
from fathom.steer.runner import Runner, Surroundings

SIGNAL, MAX_AGE_S = "signal", 20
LOOKS_AFTER_S = 5.0  # A condition sees the cluster as of its last look; the write follows.
STALE, INCOMPLETE, MISSING, WRONG = "stale", "incomplete", "missing", "wrong"
STALE_FOR_S = 60.0


def _note(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


CONTENT = msgspec.convert(
    {
        "inputs": [
            {
                "name": SIGNAL,
                "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": SIGNAL},
                "timePath": "data.observedAt",
                "maxAge": f"{MAX_AGE_S}s",
            }
        ],
        "preconditions": [{"name": "lag-is-low", "expression": f"{SIGNAL}.data.lag == 'low'"}],
        "unknownFor": "15s",
        "steps": [
            {"id": "one", "action": {"create": _note("one")}},
            {
                "id": "two",
                "action": {"create": _note("two")},
                "expect": [{"name": "still-low", "expression": f"{SIGNAL}.data.lag == 'low'"}],
            },
        ],
    },
    RunbookSpec,
)
CHANGED = msgspec.structs.replace(CONTENT, steps=CONTENT.steps[1:])


class Reporter:
    """Writes the signal every few seconds, in the form that the scenario has set."""

    def __init__(self) -> None:
        self.form = ""  # '': fresh and complete.

    def data(self, now_ns: int) -> Obj:
        lag = {WRONG: "high"}.get(self.form, "low")
        old_ns = 10 * MAX_AGE_S * SECOND_NS if self.form == STALE else 0
        observed = {} if self.form == MISSING else {"observedAt": timestamp(now_ns - old_ns)}
        return {**observed, **({} if self.form == INCOMPLETE else {"lag": lag})}

    async def write(self, world: World) -> None:
        now_ns = world.engine.epoch_ns + world.engine.now_ns
        empty = {"observedAt": None, "lag": None}
        await world.api.patch(CONFIG_MAPS, "default", SIGNAL, {"data": {**empty, **self.data(now_ns)}})


class UnknownNeverPasses(Checker):
    """No step is taken unless the signal said lately that it may be."""

    name = "no step of a run is taken on stale or missing data"
    resources = frozenset({CONFIG_MAPS.name})

    def __init__(self) -> None:
        self._good_s = float("-inf")  # When the signal was good last.
        self._is_good = False

    def begin(self, world: World) -> None:
        self._engine = world.engine

    def commit(self, change: Seen) -> Found:
        if change.key.name == SIGNAL:
            self._is_good = self._allows(change.new)
            self._good_s = change.at_s if self._is_good else self._good_s
            return None
        agent = dict(change.headers).get("user-agent", "")
        age_s = change.at_s - self._good_s
        if not agent.startswith(AGENT) or age_s <= MAX_AGE_S + LOOKS_AFTER_S:
            return None
        return f"{agent} wrote {change.path}, and the signal was good {age_s:.0f} s ago"

    def _allows(self, signal: Obj | None) -> bool:
        observed_ns = moment_ns(lookup(signal, "data", "observedAt"))
        now_ns = self._engine.epoch_ns + self._engine.now_ns
        fresh = observed_ns is not None and now_ns - observed_ns <= MAX_AGE_S * SECOND_NS
        return fresh and lookup(signal, "data", "lag") == "low"


def checkers() -> Sequence[Checker]:
    return [StepsOnce(), UnknownNeverPasses(), *of_runs()]


@scenario(
    Menu(
        processes=OPERATORS[:1],
        kinds=("/runbookruns", "/configmaps"),
        seconds=60,
        most=5,
        without=all_but(
            "crash", "lose-request", "lose-reply", "slow-reply", "pause", "partition", "drop-watch"
        ),
    ),
    checkers=checkers,
)
async def stale_runbook(world: World) -> None:
    """A run whose conditions read a signal that is stale, incomplete or missing takes no step until the
    signal is good again. Its steps cannot be changed meanwhile: the server refuses an edit, and a runner
    refuses a copy that its pinned hash does not name."""
    reporter = Reporter()
    reporter.form = world.rng.choice((STALE, INCOMPLETE, MISSING, WRONG))
    await world.apply(CONFIG_MAPS, {"metadata": {"name": SIGNAL}, "data": {"observedAt": "", "lag": ""}})
    await reporter.write(world)
    await world.apply(RUNS, _run(CONTENT))
    world.process(OPERATORS[0], Operator, who=OPERATORS[0], aborts=False)
    await _report(world, reporter, for_s=STALE_FOR_S)
    assert _steps(world) == ["", ""], f"{reporter.form}: {_steps(world)}"
    world.sometimes(f"the signal is {reporter.form}, and the run {_phase(world)}")
    await _try_to_change(world)
    reporter.form = ""
    world.heal()
    await _report(world, reporter, for_s=120)
    assert _phase(world) == runbook_run.SUCCEEDED, world.get(RUNS.name, RUN)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _report(world: World, reporter: Reporter, *, for_s: float) -> None:
    """For so long, or until the run has succeeded."""
    until_s = world.now_s + for_s
    while world.now_s < until_s and _phase(world) != runbook_run.SUCCEEDED:
        await reporter.write(world)
        await world.sleep(4.0)


async def _try_to_change(world: World) -> None:
    run = world.get(RUNS.name, RUN)
    assert run is not None
    changed = _run(CHANGED)["spec"]
    outcome = await world.api.patch(RUNS, RUN.namespace, RUN.name, {"spec": changed})
    assert not isinstance(outcome, Committed), "the steps of a run were changed"
    pinned = {"spec": {"runbook": {"hash": spec_hash(CHANGED)}}}
    outcome = await world.api.patch(RUNS, RUN.namespace, RUN.name, pinned)
    assert not isinstance(outcome, Committed), "the hash of a run was changed"
    copy = {**run, "spec": {**run["spec"], "content": changed["content"]}}
    try:
        await Runner(world.api, copy, holder="mallory", around=_surroundings(world)).resume()
    except RunLost:
        return
    world.broken("a run is refused whose steps its hash does not name", "a changed copy was resumed")


def _surroundings(world: World) -> Surroundings:
    async def nobody(step: str, question: str) -> str:
        return ""

    def now_ns() -> int:
        return world.engine.epoch_ns + world.engine.now_ns

    return Surroundings(
        now_ns=now_ns, elapsed_ns=now_ns, sleep=world.sleep, tell=lambda line: None, answer=nobody
    )


def _run(content: RunbookSpec) -> Obj:
    pinned = {"name": "book", "source": "cluster", "version": 1, "hash": spec_hash(content)}
    return {
        "apiVersion": API_VERSION,
        "kind": runbook_run.DEFINITION.kind,
        "metadata": {"name": RUN.name},
        "spec": {"runbook": pinned, "content": msgspec.json.decode(msgspec.json.encode(content))},
    }


def _phase(world: World) -> object:
    return lookup(world.get(RUNS.name, RUN), "status", "phase")


def _steps(world: World) -> list[str]:
    """Which notes of the steps exist."""
    notes = [world.get(CONFIG_MAPS.name, Key("default", name)) for name in ("one", "two")]
    return ["" if note is None else "written" for note in notes]


HOLDS_S = 20
LASTING = msgspec.convert(
    {
        "inputs": [{"name": SIGNAL, "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": SIGNAL}}],
        "steps": [{"id": "one", "action": {"create": _note("one")}}],
        "postconditions": [
            {"name": "stays-low", "expression": f"{SIGNAL}.data.lag == 'low'", "for": f"{HOLDS_S}s"}
        ],
        "postconditionsWithin": "5m",
    },
    RunbookSpec,
)
ASLEEP: tuple[AnyFault, ...] = (Pause(at_s=12.0, target=OPERATORS[0], for_s=40.0),)


class SucceedsOnlyIfItHeld(Checker):
    """A run whose postcondition must hold for a while succeeds only after it did, to the second."""

    name = "a run succeeds only when its postcondition has held for long enough"
    resources = frozenset({CONFIG_MAPS.name, RUNS.name})

    def __init__(self) -> None:
        self._low_s: float | None = None  # Since when the signal is low.

    def commit(self, change: Seen) -> Found:
        if change.resource == CONFIG_MAPS.name and change.key.name == SIGNAL:
            low = lookup(change.new, "data", "lag") == "low"
            self._low_s = (change.at_s if self._low_s is None else self._low_s) if low else None
            return None
        if lookup(change.new, "status", "phase") != runbook_run.SUCCEEDED:
            return None
        held_s = 0.0 if self._low_s is None else change.at_s - self._low_s
        return (
            f"the run succeeded, and the signal was low for {held_s:.0f} s" if held_s < HOLDS_S - 1 else None
        )


@scenario(
    Menu(processes=OPERATORS),
    scripted=ASLEEP,
    checkers=lambda: [StepsOnce(), SucceedsOnlyIfItHeld(), *of_runs()],
)
async def nobody_looked_for_a_while(world: World) -> None:
    """The machine of who carries out a run sleeps, and meanwhile its postcondition does not hold: when it is
    awake, the time for which it must hold begins anew."""
    await world.apply(CONFIG_MAPS, {"metadata": {"name": SIGNAL}, "data": {"lag": "low"}})
    await make_run(world, LASTING)
    world.process(OPERATORS[0], Operator, who=OPERATORS[0], aborts=False)
    await world.sleep(30.0 - world.now_s)
    for lag in ("high", "low"):
        await world.apply(CONFIG_MAPS, {"metadata": {"name": SIGNAL}, "data": {"lag": lag}})
        await world.sleep(14)
    await world.until(
        lambda: lookup(world.get(RUNS.name, RUN), "status", "phase") == runbook_run.SUCCEEDED,
        within_s=120,
        what="the run succeeds",
    )


async def make_run(world: World, content: RunbookSpec) -> None:
    pinned = {"name": "book", "source": "cluster", "version": 1, "hash": spec_hash(content)}
    spec = {"runbook": pinned, "content": msgspec.json.decode(msgspec.json.encode(content))}
    kind = runbook_run.DEFINITION.kind
    await world.apply(
        RUNS, {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": RUN.name}, "spec": spec}
    )


SCENARIOS: tuple[Scenario, ...] = (stale_runbook, nobody_looked_for_a_while)
