"""Controllers read only the fields that they declare: their snapshots are replaced by ones that take note."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from fathom.cache.snapshot import Objs, Snapshot
from fathom.control.kit import Kit
from fathom.explain.coupling.actors import actors
from fathom.model.declared import covers
from fathom.model.objects import Key, Obj
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.scenario import plan_of, tell

# Which object it is: everybody reads that.
IDENTITY = (
    "apiVersion",
    "kind",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.generation",
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "metadata.uid",
)

Paths = set[str]


class Noting(dict[str, Any]):
    """A part of an object that notes the paths of values that are read in it."""

    def __init__(self, part: Obj, path: str, paths: Paths) -> None:
        super().__init__(part)
        self._path = path
        self._paths = paths

    def _noted(self, name: str, value: Any) -> Any:
        path = f"{self._path}.{name}" if self._path else name
        if isinstance(value, dict):
            return Noting(value, path, self._paths)
        self._paths.add(path)
        if isinstance(value, list):
            return [Noting(item, path, self._paths) if isinstance(item, dict) else item for item in value]
        return value

    def get(self, name: str, default: Any = None) -> Any:
        return self._noted(name, super().__getitem__(name)) if name in self else default

    def __getitem__(self, name: str) -> Any:
        return self._noted(name, super().__getitem__(name))

    def items(self) -> Any:
        return [(name, self._noted(name, value)) for name, value in super().items()]

    def values(self) -> Any:
        return [self._noted(name, value) for name, value in super().items()]


class NotingSnapshot(Snapshot):
    """By kind, the paths that were read."""

    def __init__(self, view: Snapshot, paths: dict[str, Paths]) -> None:
        super().__init__(view._held, taken_s=view.taken_s, reader=view._reader)
        self.paths = paths

    def _all(self, kind: str, objs: Objs) -> Objs:
        return [Noting(obj, "", self.paths[kind]) for obj in objs]

    def get(self, kind: str, key: Key) -> Obj | None:
        obj = super().get(kind, key)
        return None if obj is None else Noting(obj, "", self.paths[kind])

    def list(self, kind: str, namespace: str | None = None) -> Objs:
        return self._all(kind, super().list(kind, namespace))

    def by_index(self, kind: str, index: str, value: str) -> Objs:
        return self._all(kind, super().by_index(kind, index, value))

    def owned(self, kind: str, uid: str) -> Objs:
        return self._all(kind, super().owned(kind, uid))


@pytest.mark.parametrize("story", ["rollouts", "real-jobs", "drains", "autoscaler-told-nothing"])
def test_every_field_that_a_controller_reads_is_declared(story: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[str, dict[str, Paths]] = defaultdict(lambda: defaultdict(set))
    right = Kit.snapshot
    monkeypatch.setattr(Kit, "snapshot", lambda kit: NotingSnapshot(right(kit), read[kit._controller]))
    tell(SCENARIOS[story], plan_of(SCENARIOS[story], "0"))
    undeclared = []
    for name, kinds in read.items():
        actor = actors().get(f"controllers/{name}")
        if actor is None:
            continue  # A stand-in of the simulator.
        for kind, paths in kinds.items():
            fields = [field for reads in actor.reads if reads.kind == kind for field in reads.fields]
            undeclared += [
                f"{name} reads {kind} {path}"
                for path in sorted(paths)
                if not covers((*fields, *IDENTITY), path)
            ]
    assert read
    assert undeclared == []
