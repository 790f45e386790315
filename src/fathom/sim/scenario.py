"""A scenario: a short story, told under many seeds with every invariant on. And one telling of it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec

from fathom.api.auth.jws import SigningKey
from fathom.seams.streams import Streams
from fathom.sim.engine import SECOND_NS, Engine
from fathom.sim.faults import AnyFault, Menu, draw
from fathom.sim.invariants import Checker
from fathom.sim.keys import world_key
from fathom.sim.oracle import Fifo, Oracle, Priorities, Seeded
from fathom.sim.violation import Broken, Violation
from fathom.sim.world import World

Story = Callable[[World], Awaitable[None]]
Strategy = Literal["random", "pct", "lineage"]

DEADLINE_S = 1800.0  # Of virtual time: no story is that long.


class Scenario(msgspec.Struct, frozen=True):
    name: str
    about: str
    story: Story
    menu: Menu  # What may go wrong.
    servers: int = 1
    scripted: Callable[[], Sequence[AnyFault]] | None = None  # Faults that belong to the story itself.
    checkers: Callable[[], Sequence[Checker]] = tuple
    finds: tuple[str, ...] = ()  # The bugs of the zoo that live here.


class Result(msgspec.Struct, frozen=True):
    """What came of one telling."""

    scenario: str
    seed: str
    faults: tuple[AnyFault, ...]
    violation: Violation | None
    trace: str
    inputs: int
    sim_s: float
    real_s: float
    fired: dict[str, int]  # 'fault at site' -> how often
    hits: dict[str, int]  # `sometimes`


def oracle_of(strategy: Strategy, streams: Streams) -> Oracle:
    if strategy == "pct":
        return Priorities(streams)
    return Seeded(streams)


def faults_of(scenario: Scenario, seed: str) -> tuple[AnyFault, ...]:
    """The faults of a seed: the story's own, and some drawn from its menu."""
    scripted = tuple(scenario.scripted()) if scenario.scripted else ()
    drawn = () if scripted else tuple(draw(Streams(seed).stream("faults"), scenario.menu))
    return scripted + drawn


class Telling:
    """One run, kept whole: its engine can be looked into afterwards."""

    def __init__(
        self,
        scenario: Scenario,
        seed: str,
        *,
        faults: Sequence[AnyFault] | None = None,
        strategy: Strategy = "random",
        signing: SigningKey | None = None,
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.faults = tuple(faults) if faults is not None else faults_of(scenario, seed)
        oracle = Fifo() if strategy == "lineage" else oracle_of(strategy, Streams(seed))
        self.engine = Engine(seed, signing=signing or world_key(), faults=self.faults, oracle=oracle)
        self.world = World(self.engine, servers=scenario.servers, checkers=tuple(scenario.checkers()))

    def run(self) -> Result:
        started = time.perf_counter()
        violation = None
        try:
            self.world.tell(self.scenario.story, deadline_s=DEADLINE_S)
            violation = self._unhandled()
        except Broken as broken:
            violation = broken.violation
        except AssertionError as error:
            violation = self._violation("the story's own assertion", str(error) or "an assertion failed")
        return Result(
            scenario=self.scenario.name,
            seed=self.seed,
            faults=self.faults,
            violation=violation,
            trace=self.engine.trace,
            inputs=self.engine.inputs,
            sim_s=self.engine.now_ns / SECOND_NS,
            real_s=time.perf_counter() - started,
            fired={f"{fault} {site}".strip(): n for (fault, site), n in self.engine.faults.fired.items()},
            hits=self.world.hits,
        )

    def _unhandled(self) -> Violation | None:
        """An exception that nobody caught is a bug, whatever the invariants say."""
        failures: Sequence[dict[str, Any]] = self.world.failures()
        for failure in failures:
            error = failure.get("exception")
            if error is not None:
                return self._violation("no exception goes unnoticed", repr(error))
        return None

    def _violation(self, invariant: str, message: str) -> Violation:
        return Violation(invariant, message, self.engine.now_ns / SECOND_NS)


def tell(scenario: Scenario, seed: str, **options: Any) -> Result:
    return Telling(scenario, seed, **options).run()
