"""Scores by how full a node would be with the pod: kube-scheduler's formulas in whole numbers. Pods without
requests count as small ones. Written twice: for many rows, and for one row in plain integers."""

from __future__ import annotations

import numpy as np

from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.node_columns import Ints
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.rows import Rows
from fathom.schedule.decide.shape import CPU, MEMORY, PodShape

FULL = 100
# Fractions are counted in this many parts: times the largest amount, they still fit 64 bits.
PARTS = 512


def least_allocated(shape: PodShape, rows: Rows, _: PlacementContext) -> Ints:
    points, resources = _sums(shape, rows, least=True)
    return np.where(resources > 0, points // np.maximum(resources, 1), 0)


def most_allocated(shape: PodShape, rows: Rows, _: PlacementContext) -> Ints:
    points, resources = _sums(shape, rows, least=False)
    return np.where(resources > 0, points // np.maximum(resources, 1), 0)


def _sums(shape: PodShape, rows: Rows, *, least: bool) -> tuple[Ints, Ints]:
    points = np.zeros(rows.size, dtype=np.int64)
    resources = np.zeros(rows.size, dtype=np.int64)
    requested = (shape.scored_cpu_milli, shape.scored_memory)
    for column in (0, 1):
        room = rows.table.allocatable[rows.index, column]
        taken = rows.table.tally.scored[rows.index, column] + requested[column]
        present = room > 0
        part = np.maximum(room - taken, 0) if least else np.minimum(taken, room)
        points += np.where(present, part * FULL // np.maximum(room, 1), 0)
        resources += present
    return points, resources


def balanced(shape: PodShape, rows: Rows, _: PlacementContext) -> Ints:
    """Highest where CPU and memory would be used to the same degree."""
    if shape.best_effort:
        return np.zeros(rows.size, dtype=np.int64)
    cpu, memory = (_fraction(shape, rows, name, column) for column, name in enumerate((CPU, MEMORY)))
    both = (cpu >= 0) & (memory >= 0)
    apart = np.where(both, np.abs(cpu - memory), 0)
    return FULL - (FULL // 2 * apart + PARTS - 1) // PARTS


def _fraction(shape: PodShape, rows: Rows, name: str, column: int) -> Ints:
    """The fraction of the node that would be used, in PARTS; -1 where the node has none of the resource."""
    room = rows.table.allocatable[rows.index, column]
    taken = np.minimum(rows.table.tally.requested[rows.index, column] + shape.amount(name), room)
    return np.where(room > 0, taken * PARTS // np.maximum(room, 1), -1)


def least_allocated_one(shape: PodShape, table: NodeTable, row: int, _: PlacementContext) -> int:
    points = resources = 0
    taken = table.tally.scored[row].tolist()
    requested = (shape.scored_cpu_milli, shape.scored_memory)
    for column, room in enumerate(table.allocatable[row, :2].tolist()):
        if room > 0:
            points += max(room - taken[column] - requested[column], 0) * FULL // room
            resources += 1
    return points // resources if resources else 0


def most_allocated_one(shape: PodShape, table: NodeTable, row: int, _: PlacementContext) -> int:
    points = resources = 0
    taken = table.tally.scored[row].tolist()
    requested = (shape.scored_cpu_milli, shape.scored_memory)
    for column, room in enumerate(table.allocatable[row, :2].tolist()):
        if room > 0:
            points += min(taken[column] + requested[column], room) * FULL // room
            resources += 1
    return points // resources if resources else 0


def balanced_one(shape: PodShape, table: NodeTable, row: int, _: PlacementContext) -> int:
    if shape.best_effort:
        return 0
    rooms: list[int] = table.allocatable[row, :2].tolist()
    cpu_room, memory_room = rooms
    if cpu_room <= 0 or memory_room <= 0:
        return FULL
    taken: list[int] = table.tally.requested[row, :2].tolist()
    cpu, memory = taken
    cpu_part = min(cpu + shape.amount(CPU), cpu_room) * PARTS // cpu_room
    memory_part = min(memory + shape.amount(MEMORY), memory_room) * PARTS // memory_room
    return FULL - (FULL // 2 * abs(cpu_part - memory_part) + PARTS - 1) // PARTS
