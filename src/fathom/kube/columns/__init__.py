"""Table columns that a JSONPath cannot express, as functions by the names used in `kinds.toml`.

Here: one pure function per column, from an object and the time to a value. Never here: which columns a kind
has (that is data), or the table around the rows (`api/tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from fathom.kube.columns import events, network, nodes, overrides, pods, policy, storage, workloads
from fathom.kube.columns.times import age
from fathom.model.objects import Obj

Cell = Callable[[Obj, int], Any]

_MODULES: tuple[ModuleType, ...] = (events, network, nodes, overrides, pods, policy, storage, workloads)
# Public functions of these modules that are not columns.
_NOT_COLUMNS = frozenset({"pod_conditions"})


def _cells() -> Mapping[str, Cell]:
    cells: dict[str, Cell] = {"age": age}
    for module in _MODULES:
        for name, value in vars(module).items():
            is_own = callable(value) and getattr(value, "__module__", "") == module.__name__
            if is_own and not name.startswith("_") and name not in _NOT_COLUMNS:
                cells[name] = value
    return MappingProxyType(cells)


CELLS: Mapping[str, Cell] = _cells()
