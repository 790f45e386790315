"""One scan of all nodes for a shape: filtered, scored, and then kept up to date while pods are placed.

A scan is made once for many pods. Placing one changes the chosen row (its room, its score) and the codes of a
few domains; only those rows are computed again. Where no score depends on which nodes are feasible, the best
rows are a list that shrinks, and a choice does not look at the other nodes at all.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.filters.layer import Layer
from fathom.schedule.decide.node_columns import Bools, Ints
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.rejection_counts import RejectionCounts
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.rules import RULES, FilterRule, Rules, Score, SoftScore, TopologyFilter
from fathom.schedule.decide.scores.soft import Soft
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.decide.verdicts import (
    FITS,
    Codes,
    Domains,
    NodeVerdicts,
    VerdictChange,
    VerdictLog,
    joined,
)

# Up to so many rows are quicker to judge one by one than all at once.
FEW = 8
OUT = -1  # The total of a row that is not feasible; real totals are never negative.
FULL = 100
# If more than one in so many rows changed, judging all of them is quicker.
REMAKE_SHARE = 8
# After so many changes a new log begins, so that reading one back stays quick.
LOG_CHANGES_MAX = 4096


class NodeChoice(msgspec.Struct, frozen=True):
    row: int
    total: int
    best: Sequence[int]  # Rows with that total, in order. Read it before the next placement.


class ShapeScan:
    reasons: Reasons
    own: Codes  # Each row's own verdict.
    log: VerdictLog
    version: int  # The table version that this scan is valid for.
    _fixed: Codes  # Codes of the rules that read only the Node.
    _fixed_points: Ints
    _base: Ints  # Points that need no scaling: valid for every row, feasible or not.
    _raw: list[tuple[int, Ints, bool]]  # (weight, raw points, more is worse)
    _scaled: list[tuple[int, Ints, bool]]  # Those of `_raw` that differ between rows.
    _constant: int  # The sum of the others.
    _layers: list[Layer]
    _softs: list[tuple[int, Soft]]
    _joined: Codes  # Own codes and layers combined; without layers the same array as `own`.
    rejections: RejectionCounts  # Of `_joined`.
    _stamp: int  # Changes whenever other rows are feasible.
    _rescaled: tuple[int, Ints] | None  # The sum of `_scaled`, with its stamp.
    _steady: bool  # No score depends on which nodes are feasible. Then the next three are used.
    _totals: Ints
    _best: array[int]  # Rows with the best total, in order. Empty: not computed yet.
    _best_total: int

    def __init__(
        self, shape: PodShape, table: NodeTable, world: PlacementContext, rules: Rules = RULES
    ) -> None:
        self.shape, self.table, self.world, self.rules = shape, table, world, rules
        for name, _ in shape.requests:
            table.resource(name)
        self._make()

    # Answers.

    def choose(self, seed: int) -> NodeChoice | None:
        """The best row; among equals the seed decides. None: no node fits."""
        if not self._steady:
            self._best_total, self._best = _tops(self._totals_of(self._joined == FITS))
        elif not self._best:
            self._best_total, self._best = _tops(self._totals)
        if not self._best:
            return None
        return NodeChoice(self._best[seed % len(self._best)], self._best_total, self._best)

    def verdicts(self) -> NodeVerdicts:
        return NodeVerdicts(self.log, self.log.decisions - 1)

    def rejecting_rules(self) -> list[str]:
        return list(dict.fromkeys(reason.rule for reason, _ in self.rejections.by_reason()))

    def codes(self) -> Codes:
        """Every row's verdict, as of now. Not to be written to."""
        return self._joined

    def totals(self) -> Ints:
        """Every row's points; negative where it is not feasible."""
        return self._totals_of(self._joined == FITS)

    def fits_now(self, row: int) -> bool:
        """Whether the pod could go to a row, as the table is at this moment (with pods lifted for a try)."""
        if self._judged_one(row) != FITS:
            return False
        rows = Rows(self.table)
        return all(
            layer.codes[layer.domains[row]] == FITS
            for rule in (self._topology if self._layers else ())
            for layer in rule.layers(self.shape, rows, self.world, self.reasons)
        )

    @property
    def has_layers(self) -> bool:
        return bool(self._layers)

    # Updates after a placement.

    def placed(self, row: int) -> None:
        """The table has counted a pod of this shape on the row."""
        self.version = self.table.version
        if len(self.log.changes) > LOG_CHANGES_MAX:
            self._new_log()
        decision = self.log.decisions
        self.log.decisions += 1
        self._look_again(row, decision)
        for number, layer in enumerate(self._layers, start=1):
            moved = layer.placed(row)
            if moved:
                self.log.changes += [VerdictChange(decision, number, domain, code) for domain, code in moved]
                self._settle_all(_rows_in(layer, [domain for domain, _ in moved]))
        for _, soft in self._softs:
            soft.placed(row)
        self._settle(row)

    def _look_again(self, row: int, decision: int) -> None:
        code, self._base[row] = self._judged_one(row), self._scored_one(row)
        if code != self.own[row]:
            if not self._layers:  # Else `_settle` counts it.
                self._recount(int(self.own[row]), code)
            self.own[row] = code
            self.log.changes.append(VerdictChange(decision, 0, row, code))

    def _settle(self, row: int) -> None:
        """Compute one row's verdict and total, from its own and its domains' codes."""
        code = int(self.own[row])
        if self._layers:
            for layer in self._layers:
                if code == FITS:
                    code = int(layer.codes[layer.domains[row]])
            if code != self._joined[row]:
                self._recount(int(self._joined[row]), code)
                self._joined[row] = code
        if self._steady:
            self._retotal(row, int(self._base[row]) + self._constant if code == FITS else OUT)

    def _settle_all(self, rows: NDArray[np.intp]) -> None:
        if rows.size > FEW:
            self._settle_many(rows)
            return
        for row in rows.tolist():
            self._settle(row)

    def _settle_many(self, rows: NDArray[np.intp]) -> None:
        old = self._joined[rows]
        new = joined(self.own[rows], [(domains[rows], codes) for domains, codes in self._coded()])
        self._joined[rows] = new
        self.rejections.move_many(old, new)
        self._stamp += 1
        if self._steady:
            self._totals[rows] = np.where(new == FITS, self._base[rows] + self._constant, OUT)
            self._best = array("q")

    def _recount(self, old: int, new: int) -> None:
        if FITS in {old, new}:
            self._stamp += 1
        self.rejections.move(old, new)

    def _retotal(self, row: int, total: int) -> None:
        self._totals[row] = total
        if not self._best:
            return
        at = bisect_left(self._best, row)
        listed = at < len(self._best) and self._best[at] == row
        if total > self._best_total:
            self._best_total, self._best = total, array("q", [row])
        elif total == self._best_total and not listed:
            self._best.insert(at, row)
        elif total < self._best_total and listed:
            del self._best[at]

    def _judged_one(self, row: int) -> int:
        code = int(self._fixed[row])
        for rule in self._moving_filters:
            if code != FITS:
                break
            if rule.judge_one is not None:
                code = rule.judge_one(self.shape, self.table, row, self.world, self.reasons)
            elif rule.name != "NodePorts" or self.shape.ports:
                code = int(rule.judge(self.shape, self._row(row), self.world, self.reasons)[0])
        return code

    def _scored_one(self, row: int) -> int:
        points = int(self._fixed_points[row])
        for weight, score in self._moving_scores:
            if score.score_one is not None:
                points += weight * score.score_one(self.shape, self.table, row, self.world)
            else:
                points += weight * int(score.score(self.shape, self._row(row), self.world)[0])
        return points

    def _row(self, row: int) -> Rows:
        return Rows(self.table, np.array([row]))

    # Updates after other changes of the table.

    def refresh(self, world: PlacementContext) -> None:
        """Bring the scan up to date with the table and the context as they are now."""
        rows = self.table.changed_rows(self.version)
        same = _alike(self.world, world)
        self.world = world
        if not same or rows is None or len(rows) * REMAKE_SHARE > self.table.height:
            self._make()
            return
        changed = np.array([row for row in rows if row >= 0], dtype=np.intp)
        if changed.size:
            some = Rows(self.table, changed)
            self.own[changed] = self._judged(some, self._fixed[changed], self._moving_filters)
            self._base[changed] = self._fixed_points[changed] + self._scored(some, self._moving_scores)
        if changed.size or self._layers or self._softs or rows:
            self._finish()

    # Making the scan.

    def _make(self) -> None:
        rows = Rows(self.table)
        self.reasons = Reasons()
        enabled = self.rules.on(self.world.policy)
        filters = [rule for rule in enabled if isinstance(rule, FilterRule)]
        self._topology = [rule for rule in enabled if isinstance(rule, TopologyFilter)]
        self._moving_filters = [rule for rule in filters if rule.reads == "pods"]
        start = np.where(self.table.alive[rows.index], FITS, Reasons.GONE).astype(np.uint8)
        fixed = [rule for rule in filters if rule.reads == "node"]
        self._fixed = self._judged(rows, start, fixed)
        self.own = self._judged(rows, self._fixed, self._moving_filters)
        self._make_scores(rows)
        self._finish()

    def _make_scores(self, rows: Rows) -> None:
        weigh = self.world.policy.weight
        listed = [(weigh(score.name, score.weight), score) for score in self.rules.scores]
        scores = [(weight, score) for weight, score in listed if weight and isinstance(score, Score)]
        fixed = [(weight, score) for weight, score in scores if score.reads == "node" and not score.scaled]
        self._moving_scores = [
            (weight, score) for weight, score in scores if score.reads == "pods" and not score.scaled
        ]
        self._soft_rules = [
            (weight, score) for weight, score in listed if weight and isinstance(score, SoftScore)
        ]
        self._raw = [
            (weight, score.score(self.shape, rows, self.world), score.scaled == "down")
            for weight, score in scores
            if score.scaled
        ]
        self._fixed_points = self._scored(rows, fixed)
        self._base = self._fixed_points + self._scored(rows, self._moving_scores)

    def _judged(self, rows: Rows, start: Codes, filters: list[FilterRule]) -> Codes:
        codes = start.copy()
        for rule in filters:
            verdicts = rule.judge(self.shape, rows, self.world, self.reasons)
            np.copyto(codes, verdicts, where=codes == FITS)
        return codes

    def _scored(self, rows: Rows, scores: list[tuple[int, Score]]) -> Ints:
        points = np.zeros(rows.size, dtype=np.int64)
        for weight, score in scores:
            points += weight * score.score(self.shape, rows, self.world)
        return points

    def _finish(self) -> None:
        """Compute all that spans more than one row."""
        rows = Rows(self.table)
        self._layers = [
            layer
            for rule in self._topology
            for layer in rule.layers(self.shape, rows, self.world, self.reasons)
        ]
        self._softs = [
            (weight, soft)
            for weight, rule in self._soft_rules
            for soft in rule.softs(self.shape, rows, self.world)
        ]
        self._scaled, self._constant = [], 0
        for weight, raw, down in self._raw:
            self._keep_scaled(weight, raw, down, self.own == FITS)
        self._joined = joined(self.own, self._coded()) if self._layers else self.own
        self.rejections = RejectionCounts(self.reasons, self._joined)
        self._rescaled, self._stamp = None, 0
        self._new_log()
        # Making layers may make the table drop counters, which counts as a change: read the version after.
        self.version = self.table.version
        self._best, self._best_total = array("q"), OUT
        self._steady = not self._softs and not self._scaled
        if self._steady:
            self._totals = self._totals_of(self._joined == FITS)

    def _new_log(self) -> None:
        self.log = VerdictLog(self.own.copy(), [(d, c.copy()) for d, c in self._coded()], self.reasons.listed)

    def _keep_scaled(self, weight: int, raw: Ints, down: bool, feasible: Bools) -> None:
        """Raw points that are equal on all rows stay so while rows only drop out, so they are not scaled."""
        judged = raw[feasible]
        if judged.size and int(judged.min()) != int(judged.max()):
            self._scaled.append((weight, raw, down))
        elif judged.size:
            most = int(judged.max())
            self._constant += weight * (FULL if bool(most) is not down else 0)

    def _totals_of(self, feasible: Bools) -> Ints:
        totals = self._base + self._constant
        if self._scaled:
            totals += self._scaled_points(feasible)
        for weight, soft in self._softs:
            totals += weight * soft.points(feasible, self._stamp)
        totals[~feasible] = OUT
        return totals

    def _scaled_points(self, feasible: Bools) -> Ints:
        if self._rescaled is None or self._rescaled[0] != self._stamp:
            points = np.zeros(feasible.size, dtype=np.int64)
            for weight, raw, down in self._scaled:
                points += weight * _scaled(raw, feasible, down)
            self._rescaled = (self._stamp, points)
        return self._rescaled[1]

    def _coded(self) -> list[tuple[Domains, Codes]]:
        return [(layer.domains, layer.codes) for layer in self._layers]


def _rows_in(layer: Layer, domains: list[int]) -> NDArray[np.intp]:
    if len(domains) == 1:
        return np.flatnonzero(layer.domains == domains[0])
    some = np.zeros(layer.codes.size, dtype=np.bool_)
    some[domains] = True
    return np.flatnonzero(some[layer.domains])


def _scaled(raw: Ints, feasible: Bools, down: bool) -> Ints:
    judged = raw[feasible]
    most = int(judged.max()) if judged.size else 0
    points = FULL * raw // most if most else np.zeros(raw.size, dtype=np.int64)
    return FULL - points if down else points


def _tops(totals: Ints) -> tuple[int, array[int]]:
    """The best total and its rows: an array, since making a list of a hundred thousand rows takes longer than
    finding them."""
    best = int(totals.max()) if totals.size else OUT
    rows = array("q")
    if best > OUT:
        rows.frombytes(np.flatnonzero(totals == best).astype(np.int64, copy=False).tobytes())
    return best, rows


def _alike(first: PlacementContext, second: PlacementContext) -> bool:
    """Whether the two are equal in what rules read. They read no revisions, ages or seeds, only whether the
    view is too old."""
    if first is second:
        return True
    return (
        first.policy == second.policy
        and first.quota == second.quota
        and first.avoided == second.avoided
        and first.allowed == second.allowed
        and first.holder == second.holder
        and first.trust_lost == second.trust_lost
        and first.refused_nodes == second.refused_nodes
        and first.volumes == second.volumes
        and _too_old(first) == _too_old(second)
    )


def _too_old(world: PlacementContext) -> bool:
    limit = world.policy.max_view_age_ms
    return limit is not None and world.view_age_ms > limit
