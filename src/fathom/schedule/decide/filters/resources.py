"""Room on the node: pods, CPU, memory, ephemeral storage, extended resources, against the pod's requests.

Room promised to other pods is not free: claims (a nominated pod's, a Reservation's), and what a capacity
class keeps of its nodes. Written twice: over many rows at once, and for one row in plain integers, which a
batch calls after every placement.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fathom.model.reasons import PODS_PER_NODE
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.filters.steering import draws_on
from fathom.schedule.decide.node_columns import Ints
from fathom.schedule.decide.node_table import NodeTable, RoomClaim
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import PODS, Needs, PodShape
from fathom.schedule.decide.verdicts import FITS, Codes, Reason


def fit(shape: PodShape, rows: Rows, world: PlacementContext, reasons: Reasons) -> Codes:
    requests = shape.requests
    short = np.zeros(rows.size, dtype=np.int64)  # A bit for each of `requests`.
    table, promised = rows.table, promised_to_others(shape, rows, world)
    for bit, (name, amount) in enumerate(requests[:_BITS_MAX]):
        column = table.resource(name)
        free = table.allocatable[rows.index, column] - table.tally.requested[rows.index, column]
        if promised is not None:
            free = free - promised[:, column]
        short |= (amount > free).astype(np.int64) << bit
    codes = rows.codes()
    for combination in np.unique(short).tolist() if short.any() else ():
        if combination:
            codes[short == combination] = _code(requests, combination, reasons)
    return codes


def fit_one(shape: PodShape, table: NodeTable, row: int, world: PlacementContext, reasons: Reasons) -> int:
    """The same for one row, in plain integers."""
    if row in table.claims_on or table.reserved:
        return int(fit(shape, Rows(table, np.array([row])), world, reasons)[0])
    allocatable, requested = table.allocatable[row].tolist(), table.tally.requested[row].tolist()
    short = 0
    for bit, (name, amount) in enumerate(shape.requests[:_BITS_MAX]):
        column = table.resources[name]
        if amount > allocatable[column] - requested[column]:
            short |= 1 << bit
    return _code(shape.requests, short, reasons) if short else FITS


# A pod that requests more kinds of resources than an int64 has bits is judged by the first of them.
_BITS_MAX = 62


def _code(requests: Needs, combination: int, reasons: Reasons) -> int:
    short = [name for bit, (name, _) in enumerate(requests[:_BITS_MAX]) if combination >> bit & 1]
    return reasons.code(_short_of(short), lambda: _short_of(short[:1]))


def _short_of(names: list[str]) -> Reason:
    ordered = sorted(names, key=lambda name: (name != PODS, name))
    return Reason(
        "NodeResourcesFit",
        tuple("Too many pods" if n == PODS else f"Insufficient {n}" for n in ordered),
        pending=PODS_PER_NODE if ordered == [PODS] else "",
        names=tuple(ordered),
    )


def promised_to_others(shape: PodShape, rows: Rows, world: PlacementContext) -> Ints | None:
    """(rows, resources): unused room that is promised to other pods. None: there is none."""
    table = rows.table
    kept = any(reserved_class.kept for reserved_class in table.reserved)
    if not table.claims_on and not kept:
        return None
    promised = np.zeros((rows.size, table.allocatable.shape[1]), dtype=np.int64)
    for row, needs in _claimed(shape, table, world):
        position = rows.position(row)
        if position is not None:
            promised[position] += table.tally.vector(needs)
    if kept:
        _add_kept(promised, shape, rows, world)
    return promised


def _claimed(shape: PodShape, table: NodeTable, world: PlacementContext) -> Iterator[tuple[int, Needs]]:
    own = table.claims.get(world.holder)
    for row in sorted(table.claims_on):
        for claim in table.claims_on[row].values():
            if claim.priority >= shape.priority and not _comes_after(claim, own):
                yield row, claim.needs


def _comes_after(claim: RoomClaim, own: RoomClaim | None) -> bool:
    """Whether the pod need not respect the claim: its own, or a later one of equal priority on its node. Else
    two pods that both fit in the end would wait for each other while there is room for one only."""
    if own is None:
        return False
    same_place = claim.node == own.node and claim.priority == own.priority
    return claim.holder == own.holder or (same_place and claim.order > own.order)


def _add_kept(promised: Ints, shape: PodShape, rows: Rows, world: PlacementContext) -> None:
    """Add what a class keeps of its nodes, less what its own pods already use of that."""
    tally = rows.table.tally
    for reserved_class in rows.table.reserved:
        if not reserved_class.kept or draws_on(reserved_class, shape, world):
            continue
        kept = tally.vector(reserved_class.kept)
        in_class = rows.having(reserved_class.node_selector) if reserved_class.node_selector else rows.no()
        promised[in_class] += kept
        for (row, name), drawn in tally.drawn.items():
            position = rows.position(row) if name == reserved_class.name else None
            if position is not None and in_class[position]:
                promised[position] -= np.minimum(tally.vector(tuple(drawn.items())), kept)
