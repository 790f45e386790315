"""Import a program as a new interpreter would, at each of its starts.

Modules of the program itself are imported again. Those of installed packages stay, and with them what they
keep in globals: all processes share it. A few packages cannot be shared; see ANEW_AT_EACH_START.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType

# Installed packages that are imported again, too: one keeps connections in globals, the other a registry of
# metrics, where a program's own modules register their names when they are imported.
ANEW_AT_EACH_START = ("kr8s", "prometheus_client")


def forget_shared_packages() -> None:
    for package in ANEW_AT_EACH_START:
        _forget(lambda module, package=package: _package_of(module) == package)  # type: ignore[misc]


def load_afresh(file: Path) -> ModuleType:
    """Import a file, and the modules beside it, as a new interpreter would."""
    _forget_folder(str(file.parent))
    name = f"__foreign__{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def import_afresh(module: str) -> ModuleType:
    """Import a module, and all of its package, as a new interpreter would, be it installed or not."""
    _forget_package(module)
    return importlib.import_module(module)


def run_file(file: Path) -> None:
    """As `python FILE` does."""
    _forget_folder(str(file.parent))
    _run_as_main(compile(file.read_bytes(), str(file), "exec"), __file__=str(file))


def run_module(name: str) -> None:
    """As `python -m NAME` does: a module, or the `__main__` of a package."""
    _forget_package(name)
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    code = None if spec is None else spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    if spec is None or code is None:
        raise ImportError(f"{name} cannot be run: it is no module, and no package with a __main__.py")
    _run_as_main(code, __file__=spec.origin, __package__=spec.parent, __spec__=spec)


def _run_as_main(code: CodeType, **names: object) -> None:
    """The machine of the process keeps its `__main__` apart from the test's: see `HIDDEN_MODULES`."""
    main = ModuleType("__main__")
    vars(main).update(names)
    sys.modules["__main__"] = main
    exec(code, vars(main))


def _forget_folder(folder: str) -> None:
    if folder not in _THERE_BEFORE:
        _THERE_BEFORE[folder] = frozenset(name for name, module in _modules() if _is_within(module, folder))
    _forget(lambda module: _is_of_program(module, folder))
    _forget_namesakes(folder)
    sys.path[:] = [folder, *(path for path in sys.path if path != folder)]


def _forget_namesakes(folder: str) -> None:
    """Many programs have a module `utils` beside them. That of another program is not this one's."""
    beside = {path.stem for path in Path(folder).iterdir() if path.suffix == ".py" or path.is_dir()}
    others = [other for other in _THERE_BEFORE if other != folder]
    _forget(
        lambda module: (
            _package_of(module) in beside and any(_is_of_program(module, other) for other in others)
        )
    )


def _forget_package(of: str) -> None:
    package = of.partition(".")[0]
    _forget(lambda module: _package_of(module) == package)


# Folder of a program -> its modules that were loaded before it ran first: a test's own, for example.
_THERE_BEFORE: dict[str, frozenset[str]] = {}


def _package_of(module: ModuleType) -> str:
    return module.__name__.partition(".")[0]


def _is_of_program(module: ModuleType, folder: str) -> bool:
    return _is_within(module, folder) and module.__name__ not in _THERE_BEFORE[folder]


def _is_within(module: ModuleType, folder: str) -> bool:
    """But for what is installed: a virtual environment may be in the program's folder."""
    file = str(getattr(module, "__file__", None) or "")
    return file.startswith(folder + os.sep) and f"{os.sep}site-packages{os.sep}" not in file


def _forget(concerns: Callable[[ModuleType], bool]) -> None:
    for name, module in _modules():
        if concerns(module):
            del sys.modules[name]


def _modules() -> list[tuple[str, ModuleType]]:
    loaded = list(sys.modules.items())
    return [(n, module) for n, module in loaded if isinstance(module, ModuleType) and n != "__main__"]
