"""Which names of fathom's code a patch changes: so that one that changes nothing is refused, not believed.

with noted_names() as names:
    load(patch)
names.changed()      ['fathom.controllers.replicaset.plan.BURST_PODS_MAX']
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

OWN = "fathom."


class PatchedNames:
    """Compares modules with what they were when they had just been loaded."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, _Identity]] = {}
        for module in [module for name, module in sys.modules.items() if name.startswith(OWN)]:
            self.note(module)

    def note(self, module: ModuleType) -> None:
        self._before[module.__name__] = dict(_values(module))

    def changed(self) -> list[str]:
        """Names of modules and classes that have another value, are new, or are gone; in order."""
        changed = []
        for name, before in self._before.items():
            after = dict(_values(sys.modules[name]))
            paths = [path for path in {**before, **after} if before.get(path) != after.get(path)]
            changed += [f"{name}.{path}" for path in paths]
        return sorted(changed)


@contextmanager
def noted_names() -> Iterator[PatchedNames]:
    """Modules that are loaded inside are noted before the code that loads them can change them."""
    names = PatchedNames()
    finder = _NotingFinder(names.note)
    sys.meta_path.insert(0, finder)
    try:
        yield names
    finally:
        sys.meta_path.remove(finder)


def _values(module: ModuleType) -> Iterator[tuple[str, _Identity]]:
    for name, value in list(vars(module).items()):
        if isinstance(value, ModuleType) or name.startswith("__"):
            continue
        yield name, _Identity(value)
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from ((f"{name}.{part}", _Identity(item)) for part, item in list(vars(value).items()))


class _Identity:
    """Equal to that of the same object; of a container, with the same items. It holds them, so that no other
    object can get their address."""

    def __init__(self, value: object) -> None:
        self._objects: list[object] = [value]
        if isinstance(value, list | tuple | set | frozenset):
            self._objects += value
        elif isinstance(value, dict):
            self._objects += [item for pair in value.items() for item in pair]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and list(map(id, self._objects)) == list(map(id, other._objects))

    __hash__ = None  # type: ignore[assignment]  # It is compared only.


class _NotingFinder(MetaPathFinder):
    def __init__(self, note: Callable[[ModuleType], None]) -> None:
        self._note = note

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith(OWN) else None
        if spec is not None and spec.loader is not None:
            spec.loader = _NotingLoader(spec.loader, self._note)
        return spec


class _NotingLoader(Loader):
    def __init__(self, loader: Any, note: Callable[[ModuleType], None]) -> None:
        self._loader, self._note = loader, note

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._note(module)
