"""Faults chosen from what a good outcome rested on.

    1. Tell the story without faults, and write down what followed from what.
    2. Each write of a process under test rested on its request, its reply, its writer, and on what others and
       the writer itself heard. Each of these can be taken away: a wound.
    3. A run is given as many wounds as it has room for, one every few seconds: most are survived, and whoever
       shrinks what is not finds out which it was.
    4. A run that held is written down as well: where it recovered in a way not seen before is struck next.

Wounds take turns, so that no two runs try the same: names of wounds, the likelier ones more often; for each
name, the sites; and at each site, the moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fathom.sim.report.chronicle import Chronicle
from fathom.sim.search.lineage_faults import LineageFault, lineage_faults
from fathom.sim.search.lineage_sites import Site, Support, hearers, supports_of
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Result, RunPlan, Scenario, Telling, plan_of

MOST = 12  # Wounds of a run.
TURNS_MAX = 8  # Of a wound at a site.


Sort = tuple[Site, str, str]  # Wounds of one name at one site: all the same, but for their moments.
Sorts = dict[Sort, list[LineageFault]]
Known = dict[str, Sorts]  # By name.


class Search:
    """Plans, the likeliest to break first. Whoever tells them says what each rested on."""

    def __init__(self, scenario: Scenario, seeds: Sequence[str]) -> None:
        """Each run is of another of these seeds, so that different runs of the story are struck."""
        self._bases = [
            msgspec.structs.replace(
                plan_of(scenario, seed), strategy="lineage", faults=own_faults(scenario, seed)
            )
            for seed in seeds
        ]
        self._menu = scenario.menu
        # A story that scripts its faults to the second is about what happens then: it is told as it is.
        self._is_fixed = bool(scenario.scripted)
        self._good = list(self._bases) if self._is_fixed else self._bases[:1]
        self._planned = 1
        self._known: dict[str, Known] = {}  # Seed -> of its first run in which there was such a moment.
        self._passes: dict[str, int] = {}  # Name of a wound -> the less, the sooner it has its turn.
        self._taken: dict[Sort, int] = {}  # How many turns it had.

    def next(self, most: int) -> list[RunPlan]:
        """[]: nothing is left to try."""
        if self._good:
            good, self._good = self._good[:most], self._good[most:]
            return good
        plans = (self._plan() for _ in range(most))
        return [plan for plan in plans if plan is not None]

    def learn(self, plan: RunPlan, supports: Sequence[Support]) -> None:
        """What this run, which held, rested on."""
        if self._is_fixed:
            return
        known = self._known.setdefault(plan.seed, {})
        for name, sorts in known_of(supports, self._menu).items():
            for sort, moments in sorts.items():
                self._passes.setdefault(name, moments[0].stride)
                self._taken.setdefault(sort, 0)
                known.setdefault(name, {}).setdefault(sort, moments)

    def _plan(self) -> RunPlan | None:
        base = self._bases[self._planned % len(self._bases)]
        known = self._known.get(base.seed) or next(iter(self._known.values()), {})
        chosen = self._chosen(known, upto=self._planned) or self._chosen(known, upto=TURNS_MAX)
        if not chosen:
            return None
        self._planned += 1
        struck = [fault for wound in chosen for fault in wound.faults]
        faults = tuple(sorted(dict.fromkeys((*base.faults, *struck)), key=lambda fault: fault.at_s))
        return msgspec.structs.replace(base, faults=faults)

    def _chosen(self, known: Known, *, upto: int) -> list[LineageFault]:
        """`upto`: what comes later than this is left out, however much room there is."""
        chosen: list[LineageFault] = []
        while len(chosen) < MOST:
            names = sorted(known, key=self._passes.__getitem__)
            found = next(filter(None, (self._fitting(known[name], chosen, upto) for name in names)), None)
            if found is None:
                break
            self._passes[found.name] += found.stride
            chosen.append(found)
        return chosen

    def _fitting(self, sorts: Sorts, chosen: Sequence[LineageFault], upto: int) -> LineageFault | None:
        """At the site whose turn it is, at a moment that is free."""
        left = [sort for sort in sorts if sorts[sort][0].later <= upto and self._taken[sort] < TURNS_MAX]
        for sort in sorted(left, key=lambda sort: self._taken[sort] + sorts[sort][0].later):
            for wound in in_turn(sorts[sort], self._taken[sort] + self._planned):
                if all(wound.apart_from(other) for other in chosen):
                    self._taken[sort] += 1
                    return wound
        return None


def known_of(supports: Sequence[Support], menu: Menu) -> Known:
    """All wounds that a run can be given."""
    found: Known = {}
    heard = hearers(supports)
    for support in (one for one in supports if one.at_s <= menu.seconds):
        for wound in lineage_faults(support, menu, heard):
            found.setdefault(wound.name, {}).setdefault((wound.site, wound.name, wound.aspect), []).append(
                wound
            )
    return found


def own_faults(scenario: Scenario, seed: str) -> Sequence[object]:
    """Those that belong to the story itself."""
    return tuple(scenario.faults_of(seed)) if scenario.faults_of is not None else scenario.scripted


def in_turn(moments: Sequence[LineageFault], turn: int) -> Iterator[LineageFault]:
    """Which moment is struck in this turn, or else: the first, one in the middle, some in between, the last,
    for which nothing later makes up."""
    count = len(moments)
    parts = (0, count // 2, count * 3 // 4, count // 4, count - 1, count // 8, count * 5 // 8, count * 3 // 8)
    places = list(dict.fromkeys(parts))
    first = turn % len(places)
    return (moments[place] for place in places[first:] + places[:first])


def told(scenario: Scenario, plan: RunPlan) -> tuple[Result, list[Support]]:
    """One run of a search, and what it rested on until nothing could go wrong any more."""
    chronicle = Chronicle()
    telling = Telling(scenario, plan, chronicle=chronicle)
    result = telling.run()
    engine = telling.engine
    processes = frozenset(scenario.menu.processes)
    supports = supports_of(chronicle, engine.began_ns, processes, until_ns=engine.faults.healed_ns)
    return result, supports
