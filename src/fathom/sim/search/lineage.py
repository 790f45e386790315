"""Lineage search: faults chosen to remove what a good outcome depended on.

    1. Run the scenario without faults, and record what followed from what.
    2. Each write of a process under test depended on its request, its reply, its writer, and on the watch
       events of other processes and of the writer itself. Faults can remove each of these: a lineage fault.
    3. A run gets as many lineage faults as it has room for, one every few seconds: the run survives most of
       them, and shrinking a run that broke finds out which one it was.
    4. A run that held is recorded as well: where it recovered in a way not seen before, faults come next.

Lineage faults take turns, so that no two runs try the same: first by name, the likelier ones more often; for
each name, by site; and at each site, by moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fathom.sim.report.chronicle import Chronicle
from fathom.sim.search.lineage_faults import LineageFault, lineage_faults
from fathom.sim.search.lineage_sites import Site, Support, hearers, supports_of
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault
from fathom.sim.world.scenario import Result, RunPlan, Scenario, ScenarioRun, own_faults, plan_of

MOST = 12  # Lineage faults of a run.
TURNS_MAX = 8  # Of one lineage fault at a site.


Sort = tuple[Site, str, str]  # Lineage faults of one name at one site differ only in their moments.
Sorts = dict[Sort, list[LineageFault]]
Known = dict[str, Sorts]  # By name.


class Search:
    """Makes plans, the likeliest to break first. The caller runs them and reports what each depended on."""

    def __init__(self, scenario: Scenario, seeds: Sequence[str]) -> None:
        """Each run uses another of these seeds, so that faults hit different runs of the scenario."""
        self._bases = [
            msgspec.structs.replace(
                plan_of(scenario, seed), strategy="lineage", faults=own_faults(scenario, seed)
            )
            for seed in seeds
        ]
        self._menu = scenario.menu
        self._is_fixed = scenario.is_left_alone
        self._good = list(self._bases) if self._is_fixed else self._bases[:1]
        self._planned = 1
        self._known: dict[str, Known] = {}  # Seed -> lineage faults, each from the first run that had it.
        self._passes: dict[str, int] = {}  # Name of a lineage fault -> lowest has the next turn.
        self._taken: dict[Sort, int] = {}  # How many turns it had.
        self._had: list[RunPlan] = []  # Runs of an earlier call, whose turns are not counted yet.
        self._learned = self._is_repeated = False

    def covers(self, seed: str) -> bool:
        return any(base.seed == seed for base in self._bases)

    def had(self, plan: RunPlan) -> None:
        """An earlier call has run this plan, and what it depended on is no longer known."""
        self._good = [good for good in self._good if good != plan]
        if plan not in self._bases:
            self._planned += 1
            self._had.append(plan)

    def forgotten(self) -> RunPlan | None:
        """The good run, once, if an earlier call has run it: to be run again and learned from."""
        if self._learned or self._good or self._is_repeated or self._is_fixed:
            return None
        self._is_repeated = True
        return self._bases[0]

    def next(self, most: int) -> list[RunPlan]:
        """The next plans to run; [] if nothing is left to try."""
        if self._good:
            good, self._good = self._good[:most], self._good[most:]
            self._is_repeated = True
            return good
        plans = (self._plan() for _ in range(most))
        return [plan for plan in plans if plan is not None]

    def learn(self, plan: RunPlan, supports: Sequence[Support]) -> None:
        """Add what this run, which held, depended on."""
        self._learned = True
        if self._is_fixed:
            return
        known = self._known.setdefault(plan.seed, {})
        for name, sorts in known_of(supports, self._menu).items():
            for sort, moments in sorts.items():
                self._passes.setdefault(name, moments[0].stride)
                self._taken.setdefault(sort, 0)
                known.setdefault(name, {}).setdefault(sort, moments)
        self._count_turns(known)

    def _count_turns(self, known: Known) -> None:
        """Of runs of an earlier call: by what their faults strike, whenever they do."""
        for plan in self._had:
            faults = frozenset(map(_whenever, plan.faults))
            for name, sorts in known.items():
                for sort, moments in sorts.items():
                    if faults.issuperset(map(_whenever, moments[0].faults)):
                        self._passes[name] += moments[0].stride
                        self._taken[sort] += 1
        self._had.clear()

    def _plan(self) -> RunPlan | None:
        base = self._bases[self._planned % len(self._bases)]
        known = self._known.get(base.seed) or next(iter(self._known.values()), {})
        chosen = self._chosen(known, upto=self._planned) or self._chosen(known, upto=TURNS_MAX)
        if not chosen:
            return None
        self._planned += 1
        added = [fault for lineage_fault in chosen for fault in lineage_fault.faults]
        faults = tuple(sorted(dict.fromkeys((*base.faults, *added)), key=lambda fault: fault.at_s))
        return msgspec.structs.replace(base, faults=faults)

    def _chosen(self, known: Known, *, upto: int) -> list[LineageFault]:
        """`upto`: lineage faults with a larger `later` are left out, however much room there is."""
        chosen: list[LineageFault] = []
        while len(chosen) < MOST:
            names = sorted(known, key=self._passes.__getitem__)
            fault = next(filter(None, (self._fitting(known[name], chosen, upto) for name in names)), None)
            if fault is None:
                break
            self._passes[fault.name] += fault.stride
            chosen.append(fault)
        return chosen

    def _fitting(self, sorts: Sorts, chosen: Sequence[LineageFault], upto: int) -> LineageFault | None:
        """The fault at the site whose turn it is, at a moment apart from those already chosen."""
        candidates = [
            sort for sort in sorts if sorts[sort][0].later <= upto and self._taken[sort] < TURNS_MAX
        ]
        for sort in sorted(candidates, key=lambda sort: self._taken[sort] + sorts[sort][0].later):
            for fault in in_turn(sorts[sort], self._taken[sort] + self._planned):
                if all(fault.apart_from(other) for other in chosen):
                    self._taken[sort] += 1
                    return fault
        return None


def _whenever(fault: AnyFault) -> AnyFault:
    return msgspec.structs.replace(fault, at_s=0.0)


def known_of(supports: Sequence[Support], menu: Menu) -> Known:
    """All lineage faults that a run can get, at a few moments each: a run has thousands of them."""
    known: Known = {}
    roles_by_kind = hearers(supports)
    for support in (support for support in supports if support.at_s <= menu.seconds):
        for fault in lineage_faults(support, menu, roles_by_kind):
            known.setdefault(fault.name, {}).setdefault((fault.site, fault.name, fault.aspect), []).append(
                fault
            )
    return {name: {sort: few_of(moments) for sort, moments in sorts.items()} for name, sorts in known.items()}


def few_of(moments: list[LineageFault]) -> list[LineageFault]:
    """Those that have a turn."""
    return [moments[place] for place in sorted(_places(len(moments)))]


def in_turn(moments: Sequence[LineageFault], turn: int) -> Iterator[LineageFault]:
    """The moment of this turn, then the alternatives."""
    places = _places(len(moments))
    first = turn % len(places)
    return (moments[place] for place in places[first:] + places[:first])


def _places(count: int) -> list[int]:
    """The first, one in the middle, some in between, the last, for which nothing later makes up."""
    parts = (0, count // 2, count * 3 // 4, count // 4, count - 1, count // 8, count * 5 // 8, count * 3 // 8)
    return list(dict.fromkeys(parts))


def told(scenario: Scenario, plan: RunPlan) -> tuple[Result, list[Support]]:
    """One run of a search, and what it depended on until the world was healed."""
    chronicle = Chronicle()
    scenario_run = ScenarioRun(scenario, plan, chronicle=chronicle)
    result = scenario_run.run()
    engine = scenario_run.engine
    processes = frozenset(scenario.menu.processes)
    supports = supports_of(chronicle, engine.began_ns, processes, until_ns=engine.faults.healed_ns)
    return result, supports
