"""Scores that read only the Node, its images, and the trust it has lost by failed starts."""

from __future__ import annotations

import numpy as np

from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.node_columns import Ints
from fathom.schedule.decide.rows import Rows
from fathom.schedule.decide.shape import PodShape

FULL = 100
# kube-scheduler's thresholds: an image smaller than the first adds no points, beyond the second no more.
IMAGE_BYTES_MIN, IMAGE_BYTES_MAX = 23 * 1024 * 1024, 1000 * 1024 * 1024


def disliked_taints(shape: PodShape, rows: Rows, _: PlacementContext) -> Ints:
    """Raw: PreferNoSchedule taints that the pod does not tolerate."""
    by_set = np.zeros(len(rows.table.taints), dtype=np.int64)
    sets = rows.table.taint_sets[rows.index]
    for number in np.unique(sets).tolist():
        listed = rows.table.taints[number]
        by_set[number] = sum(
            taint.effect == "PreferNoSchedule" and not shape.tolerates(taint) for taint in listed
        )
    return by_set[sets]


def liked_nodes(shape: PodShape, rows: Rows, _: PlacementContext) -> Ints:
    """Raw: the sum of the weights of the preferred terms that match."""
    points = np.zeros(rows.size, dtype=np.int64)
    for preferred in shape.preferred_nodes:
        points += preferred.weight * rows.matching((preferred.term,))
    return points


def images(shape: PodShape, rows: Rows, _: PlacementContext) -> Ints:
    """Bytes of the pod's images that the node has already. An image that few nodes have counts less, so that
    its pods do not crowd on those nodes."""
    present = np.zeros(rows.size, dtype=np.int64)
    nodes = max(len(rows.table), 1)
    for image in shape.images:
        on_rows = rows.table.images.get(image) or {}
        for row, size in on_rows.items():
            position = rows.position(row)
            if position is not None:
                present[position] += size * len(on_rows) // nodes
    most = IMAGE_BYTES_MAX * max(len(shape.images), 1)
    bounded = np.clip(present, IMAGE_BYTES_MIN, most)
    return FULL * (bounded - IMAGE_BYTES_MIN) // (most - IMAGE_BYTES_MIN)


def trust(_: PodShape, rows: Rows, world: PlacementContext) -> Ints:
    """Nodes on which starts have failed lately score lowest."""
    points = np.full(rows.size, FULL, dtype=np.int64)
    for name, lost in sorted(world.trust_lost.items()):
        points[rows.named(name)] = max(FULL - lost, 0)
    return points
