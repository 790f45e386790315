"""Rules that read nothing but the Node: its name, labels, taints, whether it is cordoned."""

from __future__ import annotations

import numpy as np

from fathom.model.reasons import AFFINITY, CORDON, NODE_NAME, TAINT
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.node_columns import UNSCHEDULABLE, Bools
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import PodShape, Taint
from fathom.schedule.decide.verdicts import Codes, Reason

BLOCKING = frozenset({"NoSchedule", "NoExecute"})


def rejected(rows: Rows, good: Bools, code: int) -> Codes:
    codes = rows.codes()
    codes[~good] = code
    return codes


def node_name(shape: PodShape, rows: Rows, _: PlacementContext, reasons: Reasons) -> Codes:
    if not shape.node_name:
        return rows.codes()
    text = "node(s) didn't match the requested node name"
    code = reasons.code(Reason("NodeName", (text,), resolvable=False, pending=NODE_NAME))
    return rejected(rows, rows.named(shape.node_name), code)


def unschedulable(shape: PodShape, rows: Rows, _: PlacementContext, reasons: Reasons) -> Codes:
    if shape.tolerates(UNSCHEDULABLE):
        return rows.codes()
    text = "node(s) were unschedulable"
    code = reasons.code(Reason("NodeUnschedulable", (text,), resolvable=False, pending=CORDON))
    return rejected(rows, ~rows.table.unschedulable[rows.index], code)


def taints(shape: PodShape, rows: Rows, _: PlacementContext, reasons: Reasons) -> Codes:
    """Each set of taints is judged once; the reason names the node's first taint that is not tolerated."""
    by_set = np.zeros(len(rows.table.taints), dtype=np.uint8)
    sets = rows.table.taint_sets[rows.index]
    for number in np.unique(sets).tolist():
        taint = untolerated(shape, rows.table.taints[number])
        if taint is not None:
            by_set[number] = reasons.code(_tainted(taint), _tainted_somehow)
    return by_set[sets]


def untolerated(shape: PodShape, listed: tuple[Taint, ...]) -> Taint | None:
    return next((taint for taint in listed if taint.effect in BLOCKING and not shape.tolerates(taint)), None)


def _tainted(taint: Taint) -> Reason:
    text = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    names = (taint.key, taint.value)
    return Reason("TaintToleration", (text,), resolvable=False, pending=TAINT, names=names)


def _tainted_somehow() -> Reason:
    return Reason("TaintToleration", ("node(s) had untolerated taints",), resolvable=False, pending=TAINT)


def affinity(shape: PodShape, rows: Rows, _: PlacementContext, reasons: Reasons) -> Codes:
    if not shape.node_selector and shape.node_terms is None:
        return rows.codes()
    text = "node(s) didn't match Pod's node affinity/selector"
    code = reasons.code(Reason("NodeAffinity", (text,), resolvable=False, pending=AFFINITY))
    return rejected(rows, wanted_nodes(shape, rows), code)


def wanted_nodes(shape: PodShape, rows: Rows) -> Bools:
    """The nodes that the pod's selector and required node affinity match."""
    good = rows.having(shape.node_selector)
    return good if shape.node_terms is None else good & rows.matching(shape.node_terms)


def tolerated_nodes(shape: PodShape, rows: Rows) -> Bools:
    by_set = np.array([untolerated(shape, listed) is None for listed in rows.table.taints], dtype=np.bool_)
    return by_set[rows.table.taint_sets[rows.index]]
