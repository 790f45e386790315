"""Client libraries that talk to the network from C: a foreign process's machine does not see what they do.

They are refused where they would connect, whenever they are imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from fathom.sim.world.outside_guard import lenient

CONNECTS: dict[str, tuple[str, ...]] = {
    "MySQLdb": ("connect", "Connect", "Connection"),
    "grpc": ("insecure_channel", "secure_channel"),
    "grpc.aio": ("insecure_channel", "secure_channel"),
    "psycopg": ("connect",),
    "psycopg2": ("_connect",),  # What its `connect` calls: a test may replace that.
}
NAMES = tuple(f"{module}.{name}" for module, names in CONNECTS.items() for name in names)

TO_DO = "it connects from C, past the simulated network. Replace it in the test by an object that answers"

_refused: set[int] = set()  # Modules, by their ids: they stay.


def install() -> None:
    for name in CONNECTS:
        if isinstance(sys.modules.get(name), ModuleType):
            _refuse(sys.modules[name])
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def _refuse(module: ModuleType) -> None:
    if id(module) in _refused:
        return
    _refused.add(id(module))
    for name in CONNECTS[module.__name__]:
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, lenient(f"{module.__name__}.{name}", original))


class _Finder:
    """Lets others find these modules, and looks at them when they have been loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in CONNECTS:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _refuse(module)

            loader.exec_module = exec_module
        return spec


_FINDER: Any = _Finder()
