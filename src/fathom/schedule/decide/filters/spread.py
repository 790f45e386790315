"""Required topology spread (DoNotSchedule), and the policy's `maxZoneSkew` as one more such constraint."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from fathom.model.reasons import ZONE_SKEW
from fathom.model.selectors import EQUALS, LabelSelector, Requirement
from fathom.model.well_known import REGION_LABEL, ZONE_LABEL
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.filters.layer import Layer, Moved, moved, per_domain
from fathom.schedule.decide.filters.nodes import tolerated_nodes, wanted_nodes
from fathom.schedule.decide.node_columns import MISSING, Bools, Ids
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.pod_groups import WantedCount, anywhere_in
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import PodShape, Spread
from fathom.schedule.decide.verdicts import FITS, Codes, Reason

SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"

# Labels that differ between pods of one workload; a pod's other labels are shared.
DISTINGUISHING = frozenset(
    {
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
        "batch.kubernetes.io/job-completion-index",
    }
)


def spreads(shape: PodShape, rows: Rows, _: PlacementContext, reasons: Reasons) -> Sequence[Layer]:
    hard = tuple(constraint for constraint in shape.spreads if constraint.hard)
    if not hard:
        return ()
    eligible = with_labels(tuple(constraint.topology_key for constraint in hard), rows)
    skewed = reasons.code(Reason("PodTopologySpread", (SKEWED,)))
    unlabelled = reasons.code(Reason("PodTopologySpread", (UNLABELLED,), resolvable=False))
    return [
        SpreadLayer(constraint, shape, rows, eligible, skewed=skewed, missing=unlabelled)
        for constraint in hard
    ]


def zone_skew(shape: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Sequence[Layer]:
    """Zones may differ by at most so many pods of a workload. The rule ignores nodes without a zone, or
    outside the policy's regions."""
    constraint = zone_spread(shape, world)
    if constraint is None:
        return ()
    most = constraint.max_skew
    text = f"policy/{world.policy.name}: zones would differ by more than maxZoneSkew={most}"
    code = reasons.code(Reason("MaxZoneSkew", (text,), pending=ZONE_SKEW, about=world.policy.name))
    concerned = zones_concerned(rows, world)
    return [SpreadLayer(constraint, shape, rows, concerned, skewed=code, missing=FITS, only=concerned)]


def zone_spread(shape: PodShape, world: PlacementContext) -> Spread | None:
    """The policy's zone constraint for the pod. None: there is none."""
    selector = workload_selector(shape)
    if world.policy.max_zone_skew is None or selector is None:
        return None
    return Spread(ZONE_LABEL, world.policy.max_zone_skew, True, selector)


def zones_concerned(rows: Rows, world: PlacementContext) -> Bools:
    """The nodes over which the policy's zone skew is counted."""
    concerned = with_labels((ZONE_LABEL,), rows)
    if world.policy.regions:
        inside = rows.no()
        for region in world.policy.regions:
            inside |= rows.having(((REGION_LABEL, region),))
        concerned &= inside
    return concerned


def workload_selector(shape: PodShape) -> LabelSelector | None:
    """Selects the workload's pods, of any revision. None: no labels identify them."""
    shared = [Requirement(key, EQUALS, (value,)) for key, value in shape.labels if key not in DISTINGUISHING]
    return LabelSelector.of(shared) if shared else None


def with_labels(keys: tuple[str, ...], rows: Rows) -> Bools:
    labelled = rows.table.alive[rows.index].copy()
    for key in keys:
        labelled &= rows.label_ids(key) != MISSING
    return labelled


def counted_nodes(constraint: Spread, shape: PodShape, rows: Rows, eligible: Bools) -> Bools:
    """Nodes whose pods and domains count, by the constraint's node policies."""
    if constraint.honor_affinity and (shape.node_selector or shape.node_terms is not None):
        eligible = eligible & wanted_nodes(shape, rows)
    if constraint.honor_taints:
        eligible = eligible & tolerated_nodes(shape, rows)
    return eligible


def wanted_by(constraint: Spread, shape: PodShape) -> WantedCount:
    return WantedCount((anywhere_in(shape.namespace, constraint.selector),), alive=True)


def includes(constraint: Spread, shape: PodShape) -> bool:
    return constraint.selector.matches(dict(shape.labels))


class SpreadLayer:
    def __init__(
        self,
        constraint: Spread,
        shape: PodShape,
        rows: Rows,
        eligible: Bools,
        *,
        skewed: int,
        missing: int,
        only: Bools | None = None,
    ) -> None:
        table: NodeTable = rows.table
        column = table.label_column(constraint.topology_key)
        ids = column.ids[rows.index]
        self.domains: Ids = ids.copy() if only is None else np.where(only, ids, MISSING).astype(np.int32)
        self._constraint, self._skewed, self._missing = constraint, skewed, missing
        self._counted = counted_nodes(constraint, shape, rows, eligible)
        size = len(column.values)
        self._present = np.bincount(self.domains[self._counted], minlength=size) > 0
        self._present[MISSING] = False
        counter = table.counter(wanted_by(constraint, shape))
        self._counts = per_domain(self.domains, size, counter, self._counted)
        self._own = int(includes(constraint, shape))
        self.codes: Codes = self._judged()

    def _judged(self) -> Codes:
        least = self._least()
        over = self._counts + self._own - least > self._constraint.max_skew
        codes = np.where(over, self._skewed, FITS).astype(np.uint8)
        codes[MISSING] = self._missing
        return codes

    def _least(self) -> int:
        present = self._counts[self._present]
        return 0 if present.size < self._constraint.min_domains or not present.size else int(present.min())

    def placed(self, row: int) -> Moved:
        if not self._own or not self._counted[row]:
            return []
        self._counts[self.domains[row]] += 1
        old, self.codes = self.codes, self._judged()
        return moved(old, self.codes)


class ZoneSkew(msgspec.Struct, frozen=True):
    """How full the domains of a constraint are, for explanations."""

    counts: dict[str, int]
    least: int  # The lowest count, which domains are compared with.
    own: int  # How much the pod itself would add.


def skew_of(constraint: Spread, shape: PodShape, rows: Rows, *, only: Bools | None = None) -> ZoneSkew:
    eligible = with_labels((constraint.topology_key,), rows) if only is None else only
    layer = SpreadLayer(constraint, shape, rows, eligible, skewed=1, missing=1, only=only)
    values = rows.label_values(constraint.topology_key)
    counts = layer._counts.tolist()
    present = np.flatnonzero(layer._present).tolist()
    return ZoneSkew({values[at]: counts[at] for at in present}, layer._least(), layer._own)
