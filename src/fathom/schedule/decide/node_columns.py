"""Columns over nodes that grow without a copy on every put, and the parsed form of a Node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fathom.model.objects import Obj, labels_of, metadata
from fathom.model.quantity import parse
from fathom.model.well_known import NOT_READY_TAINT, UNREACHABLE_TAINT, UNSCHEDULABLE_TAINT
from fathom.schedule.decide.read_shape import image_name, units
from fathom.schedule.decide.shape import Needs, Pairs, Taint

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Bools = NDArray[np.bool_]

UNSCHEDULABLE = Taint(UNSCHEDULABLE_TAINT, "", "NoSchedule")

T = TypeVar("T", bound=np.generic)

MISSING = 0  # The id of a label that a node does not have.


class ParsedNode(msgspec.Struct, frozen=True):
    """All fields of a Node that any rule reads. A heartbeat leaves it equal, and so changes nothing."""

    labels: Pairs
    allocatable: Needs
    taints: tuple[Taint, ...]
    unschedulable: bool = False
    images: tuple[tuple[str, int], ...] = ()


def node_facts(obj: Obj) -> ParsedNode:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    listed = status.get("allocatable") or status.get("capacity") or {}
    images = {
        image_name(str(name)): int(image.get("sizeBytes") or 0)
        for image in status.get("images") or ()
        for name in image.get("names") or ()
    }
    return ParsedNode(
        labels=tuple(sorted((str(name), str(value)) for name, value in labels_of(obj).items())),
        allocatable=tuple(sorted((name, units(name, parse(amount))) for name, amount in listed.items())),
        taints=_taints(spec, status),
        unschedulable=bool(spec.get("unschedulable")),
        images=tuple(sorted(images.items())),
    )


# The taints that the node lifecycle controller would set. They are derived from the conditions here, so that
# a node that is not ready takes no pods even before, or without, that controller.
_CONDITION_TAINTS = {
    ("Ready", "False"): NOT_READY_TAINT,
    ("Ready", "Unknown"): UNREACHABLE_TAINT,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}


def _taints(spec: Obj, status: Obj) -> tuple[Taint, ...]:
    written = [
        Taint(str(taint.get("key") or ""), str(taint.get("value") or ""), str(taint.get("effect") or ""))
        for taint in spec.get("taints") or ()
    ]
    implied = [
        Taint(_CONDITION_TAINTS[state], "", "NoSchedule")
        for condition in status.get("conditions") or ()
        if (state := (str(condition.get("type")), str(condition.get("status")))) in _CONDITION_TAINTS
    ]
    return tuple(dict.fromkeys((*written, *implied)))


def node_revision(obj: Obj) -> int:
    text = str(metadata(obj).get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0


class LabelColumn:
    """One label over all nodes: an id per value. Ids are never reused, so a reader may keep them."""

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.ids: Ids = np.zeros(capacity, dtype=np.int32)  # (capacity,); MISSING without the label.
        self.values: list[str] = [""]  # By id.
        self._by_value: dict[str, int] = {}

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        value = labels.get(self.key)
        self.ids[row] = MISSING if value is None else self._id(value)

    def id_of(self, value: str) -> int | None:
        return self._by_value.get(value)

    def _id(self, value: str) -> int:
        value_id = self._by_value.get(value)
        if value_id is None:
            value_id = self._by_value[value] = len(self.values)
            self.values.append(value)
        return value_id

    def grow(self, capacity: int) -> None:
        self.ids = grown(self.ids, capacity)


def grown(column: NDArray[T], capacity: int) -> NDArray[T]:
    """The column with room for more rows; new rows are zero."""
    larger = np.zeros((capacity, *column.shape[1:]), dtype=column.dtype)
    larger[: column.shape[0]] = column
    return larger
