"""Scores over domains: preferred spread (ScheduleAnyway), and preferred pod affinity and anti-affinity.

They are scaled over the feasible nodes, so they are computed for every choice. A placement changes one number
per topology label, and the raw points of the rows in that domain; values that depend on which nodes are
feasible are kept while those stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fathom.model.well_known import HOSTNAME_LABEL, ZONE_LABEL
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.filters.layer import per_domain
from fathom.schedule.decide.filters.podaffinity import is_own
from fathom.schedule.decide.filters.spread import (
    counted_nodes,
    includes,
    wanted_by,
    with_labels,
    workload_selector,
)
from fathom.schedule.decide.node_columns import MISSING, Bools, Ids, Ints
from fathom.schedule.decide.pod_groups import LIKED, TOGETHER, WantedCount
from fathom.schedule.decide.rows import Rows
from fathom.schedule.decide.shape import PodShape, Spread

FULL = 100
# Weights are logarithms; in fixed point with this many bits they are whole numbers, equal on every machine.
PARTS_BITS = 10
PARTS = 1 << PARTS_BITS
TOGETHER_WEIGHT = 1  # kube-scheduler's hardPodAffinityWeight.


class Soft(Protocol):
    def points(self, feasible: Bools, stamp: int) -> Ints:
        """0 to 100 per row; rows that are not feasible may have any number. The stamp changes whenever other
        rows are feasible."""
        ...

    def placed(self, row: int) -> None: ...


class Places:
    """The rows of a column's domains, looked up once each."""

    def __init__(self, domains: Ids) -> None:
        self._domains = domains
        self._sizes = np.bincount(domains)
        self._rows: dict[int, NDArray[np.intp]] = {}

    def add(self, points: Ints, row: int, step: int) -> None:
        """Add to all rows of the domain that a row is in; for the hostname label that is the row itself."""
        domain = int(self._domains[row])
        if self._sizes[domain] == 1:
            points[row] += step
            return
        rows = self._rows.get(domain)
        if rows is None:
            rows = self._rows[domain] = np.flatnonzero(self._domains == domain)
        points[rows] += step


def divided(numerators: Ints, least: int, most: int, formula: Callable[[Ints], Ints]) -> Ints:
    """Apply the formula to many numbers between two bounds. Where the bounds are close together the answers
    are looked up in a table: a division takes ten times as long."""
    if most - least > numerators.size:
        return formula(numerators)
    answers = formula(np.arange(least, most + 1, dtype=np.int64))
    return answers.take(numerators - least, mode="clip")


def spreads(shape: PodShape, rows: Rows, world: PlacementContext) -> Sequence[Soft]:
    constraints = tuple(constraint for constraint in shape.spreads if not constraint.hard)
    if constraints:
        return [SoftSpread(constraints, shape, rows, strict=True)]
    defaults = _defaults(shape) if world.policy.default_spread and not shape.spreads else ()
    return [SoftSpread(defaults, shape, rows, strict=False)] if defaults else []


def _defaults(shape: PodShape) -> tuple[Spread, ...]:
    """kube-scheduler's default constraints, for pods that a workload makes."""
    selector = workload_selector(shape) if shape.owner else None
    if selector is None:
        return ()
    return (Spread(HOSTNAME_LABEL, 3, False, selector), Spread(ZONE_LABEL, 5, False, selector))


class SoftSpread:
    def __init__(self, constraints: tuple[Spread, ...], shape: PodShape, rows: Rows, *, strict: bool) -> None:
        table = rows.table
        keys = tuple(constraint.topology_key for constraint in constraints)
        alive = table.alive[rows.index].copy()
        # Nodes without the label are ignored where the pod itself has the constraint.
        self._concerned: Bools = with_labels(keys, rows) if strict else alive
        self._skews = [constraint.max_skew for constraint in constraints]
        self._domains: list[Ids] = [table.label_column(key).ids[rows.index].copy() for key in keys]
        self._own = [includes(constraint, shape) for constraint in constraints]
        self._counted = [
            counted_nodes(constraint, shape, rows, self._concerned) for constraint in constraints
        ]
        self._counts: list[Ints] = [
            per_domain(
                domains,
                len(table.label_column(key).values),
                table.counter(wanted_by(constraint, shape)),
                counted,
            )
            for constraint, key, domains, counted in zip(
                constraints, keys, self._domains, self._counted, strict=True
            )
        ]
        for counts in self._counts:
            counts[MISSING] = 0
        self._places = [Places(domains) for domains in self._domains]
        # Values that depend on which rows are feasible, valid for `_stamp`.
        self._stamp = -1
        self._left: Bools = alive
        self._everyone = False
        self._weights: list[int] = []
        self._raw: Ints = np.zeros(rows.size, dtype=np.int64)  # In PARTS.

    def points(self, feasible: Bools, stamp: int) -> Ints:
        if stamp != self._stamp:
            self._stamp = stamp
            self._look_again(feasible)
        raw = (self._raw + PARTS // 2) >> PARTS_BITS
        judged = raw if self._everyone else raw[self._left]
        if not judged.size:
            return np.zeros(feasible.size, dtype=np.int64)
        most, least = int(judged.max()), int(judged.min())
        if not most:
            return np.where(self._left, FULL, 0)
        points = divided(raw, least, most, lambda values: FULL * (most + least - values) // most)
        return points if self._everyone else np.where(self._left, points, 0)

    def _look_again(self, feasible: Bools) -> None:
        self._left = feasible & self._concerned
        self._everyone = bool(self._left.all())
        self._weights = []
        self._raw = np.zeros(feasible.size, dtype=np.int64)
        for domains, counts, skew in zip(self._domains, self._counts, self._skews, strict=True):
            present = np.bincount(domains[self._left], minlength=counts.size) > 0
            present[MISSING] = False
            weight = round(math.log(int(present.sum()) + 2) * PARTS)
            by_domain = counts * weight + (skew - 1) * PARTS
            by_domain[MISSING] = 0
            self._raw += by_domain[domains]
            self._weights.append(weight)

    def placed(self, row: int) -> None:
        for number, (domains, own, counted) in enumerate(
            zip(self._domains, self._own, self._counted, strict=True)
        ):
            domain = int(domains[row])
            if own and counted[row] and domain != MISSING:
                self._counts[number][domain] += 1
                if self._weights:
                    self._places[number].add(self._raw, row, self._weights[number])


def neighbours(shape: PodShape, rows: Rows, _: PlacementContext) -> Sequence[Soft]:
    """The pod's own preferred terms, and those of placed pods that select it."""
    table = rows.table
    values: dict[str, Ints] = {}
    steps: dict[str, int] = {}
    for preferred in shape.preferred_pods:
        key = preferred.term.topology_key
        column = table.label_column(key)
        counter = table.counter(WantedCount((preferred.term,)))
        _add(values, key, preferred.weight * per_domain(column.ids[rows.index], len(column.values), counter))
        # Once placed, it is one more pod that the next one prefers, and it prefers the next one as much.
        steps[key] = steps.get(key, 0) + 2 * preferred.weight * is_own(preferred.term, shape, table)
    for term in shape.affinity:
        key = term.topology_key
        steps[key] = steps.get(key, 0) + TOGETHER_WEIGHT * is_own(term, shape, table)
    for term_count in table.tally.terms_about(shape):
        if term_count.role in {LIKED, TOGETHER}:
            column = table.label_column(term_count.term.topology_key)
            weight = term_count.weight if term_count.role == LIKED else TOGETHER_WEIGHT
            _add(values, column.key, weight * term_count.per_domain(column.ids, len(column.values)))
    for key in steps:
        _add(values, key, np.zeros(len(table.label_column(key).values), dtype=np.int64))
    return [Neighbours(values, steps, rows)] if values else []


def _add(values: dict[str, Ints], key: str, more: Ints) -> None:
    values[key] = values[key] + more if key in values else more


class Neighbours:
    def __init__(self, values: dict[str, Ints], steps: dict[str, int], rows: Rows) -> None:
        self._layers = [
            (rows.table.label_column(key).ids[rows.index].copy(), steps.get(key, 0)) for key in sorted(values)
        ]
        self._places = [Places(domains) for domains, _ in self._layers]
        self._raw: Ints = np.zeros(rows.size, dtype=np.int64)
        for (domains, _), key in zip(self._layers, sorted(values), strict=True):
            by_domain = values[key]
            by_domain[MISSING] = 0
            self._raw += by_domain[domains]

    def points(self, feasible: Bools, stamp: int) -> Ints:
        judged = self._raw[feasible]
        if not judged.size:
            return self._raw
        least, most = int(judged.min()), int(judged.max())
        if most == least:
            return np.zeros(self._raw.size, dtype=np.int64)
        return divided(self._raw, least, most, lambda values: FULL * (values - least) // (most - least))

    def placed(self, row: int) -> None:
        for (domains, step), places in zip(self._layers, self._places, strict=True):
            if step and domains[row] != MISSING:
                places.add(self._raw, row, step)
