"""Scenario: a short test of a cluster, run with many seeds and every invariant. ScenarioRun: one run."""

from __future__ import annotations

import gc
import re
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from fathom.api.auth.jws import SigningKey
from fathom.model.times import SECOND_NS
from fathom.seams.outside import SystemClock
from fathom.seams.streams import Streams
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.world.clock_steps import (
    DecisionsKeepTheirTime,
    only_clock_steps,
    stepped,
    without_clock_steps,
)
from fathom.sim.world.engine import Engine, undisturbed
from fathom.sim.world.fault_menu import Menu, draw, long_failure
from fathom.sim.world.faults import AnyFault
from fathom.sim.world.invariants import Checker
from fathom.sim.world.oracle import Oracle, Priorities, Seeded
from fathom.sim.world.signing_key import world_key
from fathom.sim.world.violation import Broken, Violation
from fathom.sim.world.world import World

Story = Callable[[World], Awaitable[None]]
Strategy = Literal["random", "pct", "lineage"]
FaultsOf = Callable[[str], Sequence[AnyFault]]  # From a seed.
Tale = Callable[[Chronicle, int], Sequence[str]]  # From the chronicle, and when the scenario began.

ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")

DEADLINE_S = 1800.0  # Virtual time: no scenario takes that long.

# A checker with a bug proves nothing, so its run does not hold; other runs go on.
CHECKER_RAISES = "no checker raises an exception"


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    about: str
    story: Story
    menu: Menu  # The faults that may be drawn.
    servers: int = 1
    scripted: tuple[AnyFault, ...] = ()  # Faults that belong to the scenario itself; then none are drawn.
    faults_of: FaultsOf | None = None  # Or those of a seed, where the scenario goes through all there are.
    checkers: Callable[[], Sequence[Checker]] = tuple  # Made anew for every run.
    scale: int = 1  # See `World.scale`.
    aftermath_s: float = 0.0  # How long a run goes on after a violation, to record its consequences.
    tale: Tale | None = None  # The scenario's own summary of a run, from its chronicle.
    chronicled: bool = False  # Every run keeps a chronicle: a checker of the scenario reads it.
    timed: bool = False  # It judges periods of its own processes, so that none of them may be starved.

    @property
    def is_left_alone(self) -> bool:
        """No fault is added to its own: it scripts them to the second and depends on its timing, or its menu
        is empty."""
        return bool(self.scripted) or self.menu.most == 0


def scenario(
    menu: Menu,
    *,
    name: str = "",
    servers: int = 1,
    scripted: Sequence[AnyFault] = (),
    faults_of: FaultsOf | None = None,
    checkers: Callable[[], Sequence[Checker]] = tuple,
    scale: int = 1,
    aftermath_s: float = 0.0,
    tale: Tale | None = None,
    chronicled: bool = False,
    timed: bool = False,
) -> Callable[[Story], Scenario]:
    """Make a Scenario of a function: its name, with dashes, and its docstring name and describe it."""

    def decorated(story: Story) -> Scenario:
        return Scenario(
            name=name or story.__name__.replace("_", "-"),
            about=" ".join((story.__doc__ or "").split()),
            story=story,
            menu=menu,
            servers=servers,
            scripted=tuple(scripted),
            faults_of=faults_of,
            checkers=checkers,
            scale=scale,
            aftermath_s=aftermath_s,
            tale=tale,
            chronicled=chronicled,
            timed=timed,
        )

    return decorated


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that determines one run, besides the code."""

    scenario: str
    seed: str
    strategy: Strategy = "random"
    faults: tuple[AnyFault, ...] = ()
    scale: int = 1


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run."""

    plan: RunPlan
    violation: Violation | None
    trace: str
    inputs: int
    sim_s: float
    real_s: float
    fired: dict[str, int]  # 'fault at site' -> how often
    hits: dict[str, int]  # `sometimes`
    reached: tuple[str, ...] = ()  # 'fault at site: state of the process that it met'


def plan_of(scenario: Scenario, seed: str, strategy: Strategy = "random") -> RunPlan:
    """The faults of a seed: the scenario's own, or some drawn from its menu. A scenario that scripts its
    faults to the second depends on its timing: no process is starved in it."""
    if (scenario.scripted or scenario.timed) and strategy == "pct":
        strategy = "random"
    if scenario.faults_of is not None:
        faults = tuple(scenario.faults_of(seed))
    else:
        faults = scenario.scripted or tuple(draw(Streams(seed).stream("faults"), scenario.menu))
    return RunPlan(scenario=scenario.name, seed=seed, strategy=strategy, faults=faults, scale=scenario.scale)


def own_faults(scenario: Scenario, seed: str) -> tuple[AnyFault, ...]:
    """The faults that belong to the scenario itself."""
    return tuple(scenario.faults_of(seed)) if scenario.faults_of is not None else scenario.scripted


def clock_plan_of(scenario: Scenario, seed: str) -> RunPlan:
    """Wall clocks are set, forward and back, and nothing else is done that is not the scenario's own."""
    rng, own = Streams(seed).stream("clock-steps"), own_faults(scenario, seed)
    plan = plan_of(scenario, seed)
    return msgspec.structs.replace(plan, faults=stepped(rng, scenario.menu, own))


def failure_plan_of(scenario: Scenario, seed: str) -> RunPlan | None:
    """Writes of one sort fail for a while, and nothing else is done. None for scenarios that depend on when
    things happen, and for those that cannot have it."""
    fixed = scenario.timed or scenario.scripted or scenario.faults_of is not None
    fault = None if fixed else long_failure(Streams(seed).stream("long-failure"), scenario.menu)
    return None if fault is None else msgspec.structs.replace(plan_of(scenario, seed), faults=(fault,))


def oracle_of(strategy: Strategy, streams: Streams) -> Oracle:
    return Priorities(streams) if strategy == "pct" else Seeded(streams)


class ScenarioRun:
    """One run. Its engine stays, to be inspected afterwards."""

    def __init__(
        self,
        scenario: Scenario,
        plan: RunPlan,
        *,
        chronicle: Chronicle | None = None,
        signing: SigningKey | None = None,
        decisions: DecisionsKeepTheirTime | None = None,
    ) -> None:
        self.scenario = scenario
        self.plan = plan
        self._decisions = decisions
        self.engine = Engine(
            plan.seed,
            signing=signing or world_key(),
            faults=plan.faults,
            oracle=oracle_of(plan.strategy, Streams(plan.seed)),
            chronicle=Chronicle() if chronicle is None and scenario.chronicled else chronicle,
        )
        self.engine.aftermath_s = scenario.aftermath_s
        self.world = World(
            self.engine,
            servers=scenario.servers,
            checkers=self._checkers(),
            scale=plan.scale,
            is_disturbed=not set(plan.faults) <= set(own_faults(scenario, plan.seed)),
        )

    def _checkers(self) -> tuple[Checker, ...]:
        """The scenario's; and where only clocks are set, what that may not change."""
        clocks: tuple[Checker, ...] = (self._decisions,) if self._decisions is not None else ()
        if only_clock_steps(self.plan.faults, own_faults(self.scenario, self.plan.seed)):
            clocks = (DecisionsKeepTheirTime(self._without_clock_steps),)
        try:
            return (*self.scenario.checkers(), *clocks)
        except Exception as error:
            self.engine.checker_raised(error)
            return ()

    def _without_clock_steps(self) -> Counter[str] | None:
        """What the same run decides if no clock is set; None where it breaks anyway."""
        faults = without_clock_steps(self.plan.faults)
        plan, decisions = msgspec.structs.replace(self.plan, faults=faults), DecisionsKeepTheirTime()
        result = ScenarioRun(self.scenario, plan, decisions=decisions).run()
        return decisions.decisions if result.violation is None else None

    def run(self) -> Result:
        clock = SystemClock()
        started_ns = clock.monotonic_ns()
        engine = self.engine
        try:
            self._tell()
        finally:
            engine.end()
        reached = engine.faults.reached
        return Result(
            plan=self.plan,
            violation=engine.violation,
            trace=engine.trace.hexdigest(),
            inputs=engine.trace.inputs,
            sim_s=engine.since_s,
            real_s=(clock.monotonic_ns() - started_ns) / SECOND_NS,
            fired={f"{fault} {site}".strip(): n for (fault, site), n in engine.faults.fired.items()},
            hits=dict(self.world.hits),
            reached=tuple(sorted(f"{fault} {site}".strip() + f": {state}" for fault, site, state in reached)),
        )

    def _tell(self) -> None:
        engine = self.engine
        try:
            self.world.tell(self.scenario.story, deadline_s=DEADLINE_S)
        except Broken as broken:
            engine.broken(broken.violation)
        except Exception as error:
            engine.broken(self._violation(*self._raised(error)))
        if engine.violation is None:
            self._look_for_failures()

    def _raised(self, error: Exception) -> tuple[str, str]:
        """The invariant that an exception of a checker or of the scenario breaks, and the message."""
        text = "".join(traceback.format_exception_only(error)).strip()
        checker = raising_checker(error)
        if checker or error is self.engine.error:
            return CHECKER_RAISES, f"{checker or 'a checker'}: {_place(error)}: {text}"
        if isinstance(error, AssertionError):
            return "the scenario's own assertion", f"{_place(error)}: {error}".rstrip(": ")
        return "the scenario raises no exception", f"{_place(error)}: {text}"

    def _look_for_failures(self) -> None:
        """An exception that no code caught is a bug, even if every invariant holds."""
        for failure in self.engine.failures():
            error = failure.get("exception")
            message = repr(error) if error is not None else str(failure.get("message"))
            self.engine.broken(self._violation("no exception goes unnoticed", message))

    def _violation(self, invariant: str, message: str) -> Violation:
        """Removes memory addresses, which an assertion's message may contain: they differ between runs."""
        return Violation(invariant, ADDRESS.sub("0x…", message), self.engine.since_s)


def raising_checker(error: BaseException) -> str:
    """The name of the checker that raised it, directly or in something that it called; '' if none did."""
    frames = (frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__))
    checker = next((caller for caller in frames if isinstance(caller, Checker)), None)
    return "" if checker is None else checker.name or type(checker).__name__


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def tell(scenario: Scenario, plan: RunPlan) -> Result:
    return ScenarioRun(scenario, plan).run()


def sweep() -> None:
    """Collect garbage between runs: the last world is freed now, and not in the middle of the next one."""
    gc.collect()


@contextmanager
def swept() -> Iterator[None]:
    """Collect garbage once, after the runs in this block; none is collected between their end and that."""
    with undisturbed():
        try:
            yield
        finally:
            sweep()
