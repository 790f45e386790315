"""The course of an exploration: which runs come next, a round at a time.

A round is decided from the results of the rounds before it, and from nothing else: so an exploration is the
same on any number of cores, and one that goes on from a file of results decides as it did before.

Each scenario's runs take turns over the strategies. `lineage` learns from its own runs (`lineage.Search`),
and no file has what it learned: after a break, the runs on file count as had, and the good run is repeated
once to learn from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from fathom.sim.search import lineage
from fathom.sim.search.lineage_sites import Support
from fathom.sim.search.seeds import everyone
from fathom.sim.search.steering import Steering
from fathom.sim.world.scenario import (
    Result,
    RunPlan,
    Scenario,
    Strategy,
    clock_plan_of,
    failure_plan_of,
    plan_of,
)

# Runs of a round at least: enough that cores are not idle at its end.
ROUND_MIN = 16
FIRST_ROUND = 2  # Runs of each scenario: a random one, and the good one that lineage learns from.
SEEDS_TOGETHER = 4  # Seeds of one search. Sixteen take about as long: more variety, less aim.

# Of each scenario's runs, the third and every eighth after it: early, and few, as each is run twice. And the
# sixth, where writes of one sort fail.
CLOCKS_TURN, FAILURE_TURN, SINGLE_EVERY = 2, 5, 8

Pair = tuple[str, str]  # Scenario and seed.


class PlannedRun(msgspec.Struct, frozen=True):
    plan: RunPlan
    result: Result | None = None  # Known already, from the file of results.
    counted: bool = True  # False: its result is on file, and it runs again only to be learned from.


class Dealer(Protocol):
    """Says which scenario gets the next runs, and with which seed."""

    def deal(self) -> list[Pair]:
        """The pairs of the next round; [] when it is over."""

    def add(self, result: Result) -> None: ...


class EveryPair:
    """All pairs, in the order given."""

    def __init__(self, names: Sequence[str], seeds: range) -> None:
        self._pairs = iter(everyone(names, seeds))
        self._round, self._later = FIRST_ROUND * len(names), max(ROUND_MIN, len(names))
        self.total = len(names) * len(seeds)

    def deal(self) -> list[Pair]:
        size, self._round = self._round, self._later
        return list(islice(self._pairs, size))

    def add(self, result: Result) -> None:
        """Nothing depends on it."""


class SteeredPairs:
    """Each seed for one scenario: evenly, and where runs reach new states. Every scenario and every seed at
    least once. So a thousand seeds are a thousand runs, however many scenarios there are."""

    def __init__(self, names: Sequence[str], seeds: range) -> None:
        self._steering = Steering(names)
        self._seeds = seeds
        self._round, self._later = FIRST_ROUND * len(names), max(ROUND_MIN, len(names))
        self._dealt = 0
        self.total = max(len(names), len(seeds))

    def deal(self) -> list[Pair]:
        size, self._round = min(self._round, self.total - self._dealt), self._later
        names = self._steering.deal(size)
        first, self._dealt = self._dealt, self._dealt + len(names)
        return [(name, str(self._seeds[at % len(self._seeds)])) for at, name in enumerate(names, first)]

    def add(self, result: Result) -> None:
        self._steering.add(result.plan.scenario, result.reached)


class Course:
    def __init__(
        self,
        scenarios: Mapping[str, Scenario],
        dealer: Dealer,
        seeds: range,
        *,
        strategies: Sequence[Strategy],
        single: bool = False,
        done: Sequence[Result] = (),
    ) -> None:
        """`single`: in some runs of each scenario only wall clocks are set, or only writes of one sort fail
        for a while."""
        self._scenarios = scenarios
        self._dealer = dealer
        self._strategies = strategies
        self._single = single
        self._given = dict.fromkeys(scenarios, 0)
        self._done = {result.plan: result for result in done if result.plan.strategy != "lineage"}
        self._lineages = {
            name: LineageRuns(scenario, seeds, _of_lineage(done, name, seeds))
            for name, scenario in scenarios.items()
            if "lineage" in strategies
        }

    def next(self) -> list[PlannedRun]:
        """The runs of the next round; [] when the exploration is over."""
        return [run for name, seed in self._dealer.deal() for run in self._planned(name, seed)]

    def add(self, run: PlannedRun, result: Result, supports: Sequence[Support]) -> None:
        """The result of a run of this round. All are added before the next round."""
        if run.counted:
            self._dealer.add(result)
        if result.plan.strategy == "lineage":
            self._lineages[result.plan.scenario].add(run, result, supports)

    def _planned(self, name: str, seed: str) -> Iterator[PlannedRun]:
        number = self._given[name]
        self._given[name] += 1
        strategy = self._strategies[number % len(self._strategies)]
        single = single_cause(self._scenarios[name], seed, number % SINGLE_EVERY) if self._single else None
        if single is not None:
            yield PlannedRun(single, self._done.get(single))
            return
        if strategy == "lineage":
            runs = self._lineages[name].next()
            yield from runs
            if any(run.counted for run in runs):
                return
            strategy = "random"  # Nothing to take away now: the turn is not lost.
        plan = plan_of(self._scenarios[name], seed, strategy)
        yield PlannedRun(plan, self._done.get(plan))


def single_cause(scenario: Scenario, seed: str, turn: int) -> RunPlan | None:
    if turn == CLOCKS_TURN:
        return clock_plan_of(scenario, seed)
    return failure_plan_of(scenario, seed) if turn == FAILURE_TURN else None


def _of_lineage(done: Sequence[Result], name: str, seeds: range) -> list[Result]:
    return [
        result
        for result in done
        if (result.plan.strategy, result.plan.scenario) == ("lineage", name)
        and int(result.plan.seed) in seeds
    ]


class LineageRuns:
    """One scenario's lineage searches, one after another, each over a few of the seeds. A search ends with
    its first violation, or when nothing is left to try."""

    def __init__(self, scenario: Scenario, seeds: range, done: Sequence[Result]) -> None:
        self._scenario = scenario
        # Random runs a scenario that gets no other faults as it is.
        self._blocks = iter(()) if scenario.is_left_alone else _blocks(seeds)
        self._done = deque(done)
        self._search: lineage.Search | None = None
        self._searches: dict[RunPlan, lineage.Search] = {}  # Of the runs that are under way.
        self._awaited: RunPlan | None = None  # Nothing can be planned before this run is learned from.
        self._advance()

    def _advance(self) -> None:
        block = next(self._blocks, None)
        self._search = None if block is None else lineage.Search(self._scenario, block)
        self._awaited = None
        self._is_new = True  # The search has no run yet.

    def next(self) -> list[PlannedRun]:
        """A run that counts, if there is one now; before it perhaps one that is repeated to learn from."""
        if self._awaited is not None:
            return []
        if self._done:
            return [self._had(self._done.popleft())]
        while self._search is not None:
            if (again := self._search.forgotten()) is not None:
                self._is_new = True
                return [self._under_way(PlannedRun(again, counted=False))]
            if plans := self._search.next(1):
                return [self._under_way(PlannedRun(plans[0]))]
            self._advance()
        return []

    def _had(self, result: Result) -> PlannedRun:
        while self._search is not None and not self._search.covers(result.plan.seed):
            self._advance()  # The one before it had nothing left to try.
        if self._search is None:
            return PlannedRun(result.plan, result)
        self._search.had(result.plan)
        return self._under_way(PlannedRun(result.plan, result))

    def _under_way(self, run: PlannedRun) -> PlannedRun:
        assert self._search is not None
        self._searches[run.plan] = self._search
        if self._is_new:
            self._awaited, self._is_new = run.plan, False
        return run

    def add(self, run: PlannedRun, result: Result, supports: Sequence[Support]) -> None:
        if result.plan == self._awaited:
            self._awaited = None
        search = self._searches.pop(result.plan, None)
        if search is None:
            return
        if result.violation is not None:
            if search is self._search:
                self._advance()
        elif run.result is None:
            search.learn(result.plan, supports)


def _blocks(seeds: range) -> Iterator[list[str]]:
    for start in range(0, len(seeds), SEEDS_TOGETHER):
        yield [str(seed) for seed in seeds[start : start + SEEDS_TOGETHER]]
