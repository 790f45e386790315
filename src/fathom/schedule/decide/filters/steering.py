"""fathom's own rules about single nodes: overrides, reserved capacity, trust, freshness of the view."""

from __future__ import annotations

from collections.abc import Mapping

from fathom.model.reasons import CAPACITY_CLASS, OLD_VIEW, OVERRIDE, REFUSED_NODES
from fathom.model.well_known import HOSTNAME_LABEL
from fathom.schedule.decide.context import Allowed, Avoided, PlacementContext, Reserved
from fathom.schedule.decide.filters.nodes import rejected
from fathom.schedule.decide.node_columns import Bools
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import Pairs, PodShape
from fathom.schedule.decide.verdicts import FITS, Codes, Reason


def freshness(_: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Codes:
    limit = world.policy.max_view_age_ms
    if limit is None or world.view_age_ms <= limit:
        return rows.codes()
    text = f"freshness/{world.policy.name}: the view of the cluster is older than {limit} ms"
    old = Reason("Freshness", (text,), resolvable=False, pending=OLD_VIEW, about=world.policy.name)
    return rejected(rows, rows.no(), reasons.code(old))


def avoided(_: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Codes:
    codes = rows.codes()
    for avoidance in world.avoided:
        text = f"override/{avoidance.override}: {_avoidance_text(avoidance)}"
        reason = Reason("Override", (text,), resolvable=False, pending=OVERRIDE, about=avoidance.override)
        for value in avoidance.values:
            matching = rows.having(((avoidance.label, value), *avoidance.scope))
            if avoidance.label == HOSTNAME_LABEL:  # A node without the label is its own host.
                matching |= rows.named(value) & rows.having(avoidance.scope)
            codes[(codes == FITS) & matching] = reasons.code(reason)
    return codes


def _avoidance_text(avoidance: Avoided) -> str:
    return f"node(s) are to be avoided ({avoidance.label} in {', '.join(avoidance.values)})"


def refused_nodes(_: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Codes:
    """Nodes where the server has just refused a placement that our view allows."""
    codes = rows.codes()
    for name in world.refused_nodes:
        codes[rows.named(name)] = reasons.code(_REFUSED)
    return codes


_REFUSED = Reason(
    "NodeTrust",
    ("node(s) had a binding refused; skipped until the scheduler's caches catch up",),
    resolvable=False,
    pending=REFUSED_NODES,
)


def reserved(shape: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Codes:
    """Nodes of a class are for pods of the class; a pod that asks for a class gets its nodes or none."""
    codes, wanted = rows.codes(), shape.capacity_class
    if wanted:
        own = next(
            (reserved_class for reserved_class in rows.table.reserved if reserved_class.name == wanted), None
        )
        in_class = rows.having(own.node_selector) if own is not None and own.node_selector else rows.no()
        codes[~in_class] = _code(reasons, wanted, "node(s) were not in the capacity class")
        if own is not None:
            closed = in_class & ~_open(own, shape, rows, world)
            codes[closed] = _code(reasons, wanted, f"tenant {shape.tenant} may not use the capacity class")
    of_class = rows.table.exclusive[rows.index]
    for number, reserved_class in enumerate(rows.table.reserved, start=1):
        if reserved_class.kept or not reserved_class.node_selector or reserved_class.name == wanted:
            continue
        # A node of two classes belongs to the first for pods that ask for none, so the second closes it: no
        # pod can be of both.
        open_here = rows.no() if wanted else (of_class == number) & _open(reserved_class, shape, rows, world)
        code = _code(reasons, reserved_class.name, "node(s) were reserved for the capacity class")
        codes[rows.having(reserved_class.node_selector) & ~open_here & (codes == FITS)] = code
    return codes


def _code(reasons: Reasons, name: str, text: str) -> int:
    full_text = f"capacity/{name}: {text}"
    reason = Reason("CapacityClass", (full_text,), resolvable=False, pending=CAPACITY_CLASS, about=name)
    return reasons.code(reason)


def _open(reserved_class: Reserved, shape: PodShape, rows: Rows, world: PlacementContext) -> Bools:
    """Where pods of this shape may use the class: everywhere for its tenants, else as overrides say."""
    if reserved_class.admits(shape.tenant):
        return rows.yes()
    open_rows = rows.no()
    for allowed in _openings(reserved_class, world):
        open_rows |= rows.having(allowed.scope)
    return open_rows


def _openings(reserved_class: Reserved, world: PlacementContext) -> list[Allowed]:
    return [
        allowed
        for allowed in world.allowed
        if allowed.capacity_class == reserved_class.name and allowed.left != 0
    ]


def draws_on(reserved_class: Reserved, shape: PodShape, world: PlacementContext) -> bool:
    """Whether this pod may use the room that a class keeps on its nodes."""
    if shape.capacity_class:
        return shape.capacity_class == reserved_class.name
    return bool(_openings(reserved_class, world))


def class_on(shape: PodShape, table: NodeTable, row: int, world: PlacementContext) -> str:
    """The class that a pod draws on if it is placed on the row (having passed the rule above)."""
    number = int(table.exclusive[row])
    if shape.capacity_class or number:
        return shape.capacity_class or table.reserved[number - 1].name
    labels = dict(table.facts[row].labels) if world.allowed else {}
    for reserved_class in table.reserved:
        if (
            reserved_class.kept
            and draws_on(reserved_class, shape, world)
            and _has(labels, reserved_class.node_selector)
        ):
            return reserved_class.name
    return ""


def overrides_used(shape: PodShape, table: NodeTable, row: int, world: PlacementContext) -> tuple[str, ...]:
    """The override without which the pod could not be on the row."""
    drawn = class_on(shape, table, row, world)
    reserved_class = next(
        (reserved_class for reserved_class in table.reserved if reserved_class.name == drawn), None
    )
    if reserved_class is None or reserved_class.admits(shape.tenant):
        return ()
    labels = dict(table.facts[row].labels)
    used = (allowed.override for allowed in _openings(reserved_class, world) if _has(labels, allowed.scope))
    return tuple(used)[:1]


def _has(labels: Mapping[str, str], pairs: Pairs) -> bool:
    return all(labels.get(key) == value for key, value in pairs)
