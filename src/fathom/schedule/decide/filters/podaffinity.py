"""Required pod affinity and anti-affinity, within the domains of a topology label.

Three rules, in kube-scheduler's order: the pod's own affinity, its own anti-affinity, and the anti-affinity
of pods that are placed already, which must keep holding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathom.model.reasons import AFFINITY
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.filters.layer import Layer, Moved, moved, per_domain
from fathom.schedule.decide.node_columns import MISSING, Ints
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.pod_groups import ANTI, WantedCount, matches
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import AffinityTerm, PodShape
from fathom.schedule.decide.verdicts import FITS, Codes, Reason

RULE = "InterPodAffinity"
LONELY = Reason(RULE, ("node(s) didn't match pod affinity rules",), resolvable=False, pending=AFFINITY)
DISLIKED = Reason(RULE, ("node(s) didn't match pod anti-affinity rules",), pending=AFFINITY)
UNWELCOME = Reason(RULE, ("node(s) didn't satisfy existing pods anti-affinity rules",), pending=AFFINITY)


def layers(shape: PodShape, rows: Rows, _: PlacementContext, reasons: Reasons) -> Sequence[Layer]:
    return [
        *together(shape, rows, reasons),
        *_apart(shape, rows, reasons),
        *_unwelcome(shape, rows, reasons),
    ]


def is_own(term: AffinityTerm, shape: PodShape, table: NodeTable) -> bool:
    """Whether the shape's own term selects pods of the shape itself."""
    return matches(term, shape.namespace, dict(shape.labels), table.namespaces)


def together(shape: PodShape, rows: Rows, reasons: Reasons) -> list[TogetherLayer]:
    if not shape.affinity:
        return []
    counter = rows.table.counter(WantedCount(shape.affinity))
    own = all(is_own(term, shape, rows.table) for term in shape.affinity)
    code = reasons.code(LONELY)
    term_layers = [TogetherLayer(term, rows, own=own, code=code) for term in shape.affinity]
    for layer in term_layers:
        layer.counts = per_domain(layer.domains, layer.counts.size, counter)
    for layer in term_layers:
        layer.all = term_layers
        layer.codes = layer.judged()
    return term_layers


class TogetherLayer:
    """Required affinity. The first pod of a group with affinity to itself may go to any labelled node."""

    def __init__(self, term: AffinityTerm, rows: Rows, *, own: bool, code: int) -> None:
        column = rows.table.label_column(term.topology_key)
        self.domains = column.ids[rows.index].copy()
        self.counts: Ints = np.zeros(len(column.values), dtype=np.int64)
        self.own, self.code = own, code
        self.all: list[TogetherLayer] = [self]
        self.codes: Codes = np.zeros(self.counts.size, dtype=np.uint8)

    def judged(self) -> Codes:
        first = self.own and not any(layer.counts[1:].any() for layer in self.all)
        codes = np.where((self.counts > 0) | first, FITS, self.code).astype(np.uint8)
        codes[MISSING] = self.code
        return codes

    def placed(self, row: int) -> Moved:
        if not self.own:
            return []
        # The first layer counts for all: whether any matching pod exists is a question about all layers.
        if self is self.all[0]:
            for layer in self.all:
                layer.counts[layer.domains[row]] += 1
        old, self.codes = self.codes, self.judged()
        return moved(old, self.codes)


def _apart(shape: PodShape, rows: Rows, reasons: Reasons) -> list[ApartLayer]:
    apart_layers = []
    for term in shape.anti_affinity:
        column = rows.table.label_column(term.topology_key)
        domains = column.ids[rows.index].copy()
        counts = per_domain(domains, len(column.values), rows.table.counter(WantedCount((term,))))
        own = is_own(term, shape, rows.table)
        apart_layers.append(ApartLayer(domains, counts, own=own, code=reasons.code(DISLIKED)))
    return apart_layers


class ApartLayer:
    def __init__(self, domains: np.ndarray, counts: Ints, *, own: bool, code: int) -> None:
        self.domains, self.counts, self.own, self.code = domains, counts, own, code
        self.codes: Codes = np.where(counts > 0, code, FITS).astype(np.uint8)
        self.codes[MISSING] = FITS  # A node without the label is in no domain.

    def placed(self, row: int) -> Moved:
        domain = int(self.domains[row])
        if not self.own or domain == MISSING or self.codes[domain] != FITS:
            return []
        self.codes[domain] = self.code
        return [(domain, self.code)]


def _unwelcome(shape: PodShape, rows: Rows, reasons: Reasons) -> list[ApartLayer]:
    """Anti-affinity of placed pods: one layer per topology label. Placing a pod of this shape changes only
    what its own anti-affinity, which is checked before, rejects as well: hence own=False."""
    counts: dict[str, Ints] = {}
    table = rows.table
    for term_count in table.tally.terms_about(shape):
        if term_count.role == ANTI:
            key = term_count.term.topology_key
            column = table.label_column(key)
            by_domain = term_count.per_domain(column.ids, len(column.values))
            counts[key] = counts[key] + by_domain if key in counts else by_domain
    code = reasons.code(UNWELCOME) if counts else FITS
    return [
        ApartLayer(table.label_column(key).ids[rows.index].copy(), counts[key], own=False, code=code)
        for key in sorted(counts)
    ]
