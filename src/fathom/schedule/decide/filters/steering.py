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
    for one in world.avoided:
        text = f"override/{one.override}: {_words(one)}"
        reason = Reason("Override", (text,), resolvable=False, pending=OVERRIDE, about=one.override)
        for value in one.values:
            there = rows.having(((one.label, value), *one.scope))
            if one.label == HOSTNAME_LABEL:  # A node without the label is its own host.
                there |= rows.named(value) & rows.having(one.scope)
            codes[(codes == FITS) & there] = reasons.code(reason)
    return codes


def _words(one: Avoided) -> str:
    return f"node(s) are to be avoided ({one.label} in {', '.join(one.values)})"


def doubted(_: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Codes:
    """Nodes where the server has just refused a placement that our view allows."""
    codes = rows.codes()
    for name in world.doubted:
        codes[rows.named(name)] = reasons.code(_REFUSED)
    return codes


_REFUSED = Reason(
    "NodeTrust",
    ("node(s) refused a placement that our view allows; a fresh view is waited for",),
    resolvable=False,
    pending=REFUSED_NODES,
)


def reserved(shape: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Codes:
    """Nodes of a class are for pods of the class; a pod that asks for a class gets its nodes or none."""
    codes, wanted = rows.codes(), shape.capacity_class
    if wanted:
        own = next((one for one in rows.table.reserved if one.name == wanted), None)
        there = rows.having(own.node_selector) if own is not None and own.node_selector else rows.no()
        codes[~there] = _code(reasons, wanted, "node(s) were not in the capacity class")
        if own is not None:
            closed = there & ~_open(own, shape, rows, world)
            codes[closed] = _code(reasons, wanted, f"tenant {shape.tenant} may not use the capacity class")
    of_class = rows.table.exclusive[rows.index]
    for number, one in enumerate(rows.table.reserved, start=1):
        if one.kept or not one.node_selector or one.name == wanted:
            continue
        # A node of two classes belongs to the first for pods that ask for none, so the second closes it: no
        # pod can be of both.
        open_here = rows.no() if wanted else (of_class == number) & _open(one, shape, rows, world)
        code = _code(reasons, one.name, "node(s) were reserved for the capacity class")
        codes[rows.having(one.node_selector) & ~open_here & (codes == FITS)] = code
    return codes


def _code(reasons: Reasons, name: str, text: str) -> int:
    words = f"capacity/{name}: {text}"
    reason = Reason("CapacityClass", (words,), resolvable=False, pending=CAPACITY_CLASS, about=name)
    return reasons.code(reason)


def _open(one: Reserved, shape: PodShape, rows: Rows, world: PlacementContext) -> Bools:
    """Where pods of this shape may use the class: everywhere for its tenants, else as overrides say."""
    if one.admits(shape.tenant):
        return rows.yes()
    found = rows.no()
    for allowed in _openings(one, world):
        found |= rows.having(allowed.scope)
    return found


def _openings(one: Reserved, world: PlacementContext) -> list[Allowed]:
    return [allowed for allowed in world.allowed if allowed.capacity_class == one.name and allowed.left != 0]


def draws_on(one: Reserved, shape: PodShape, world: PlacementContext) -> bool:
    """Whether this pod may use the room that a class keeps on its nodes."""
    if shape.capacity_class:
        return shape.capacity_class == one.name
    return bool(_openings(one, world))


def class_on(shape: PodShape, table: NodeTable, row: int, world: PlacementContext) -> str:
    """The class that a pod draws on if it is placed on the row (having passed the rule above)."""
    number = int(table.exclusive[row])
    if shape.capacity_class or number:
        return shape.capacity_class or table.reserved[number - 1].name
    labels = dict(table.facts[row].labels) if world.allowed else {}
    for one in table.reserved:
        if one.kept and draws_on(one, shape, world) and _has(labels, one.node_selector):
            return one.name
    return ""


def overrides_used(shape: PodShape, table: NodeTable, row: int, world: PlacementContext) -> tuple[str, ...]:
    """The override without which the pod could not be on the row."""
    drawn = class_on(shape, table, row, world)
    one = next((one for one in table.reserved if one.name == drawn), None)
    if one is None or one.admits(shape.tenant):
        return ()
    labels = dict(table.facts[row].labels)
    used = (allowed.override for allowed in _openings(one, world) if _has(labels, allowed.scope))
    return tuple(used)[:1]


def _has(labels: Mapping[str, str], pairs: Pairs) -> bool:
    return all(labels.get(key) == value for key, value in pairs)
