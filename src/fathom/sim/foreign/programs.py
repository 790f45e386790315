"""Run a program that was not written for fathom as a process of a world.

    run_program(world, "backup", main)                 # any function, async or not
    run_operator(world, "op", "my_operator.py")        # as `kopf run my_operator.py` does
    run_operator(world, "op", module="my.operator")    # as `kopf run -m my.operator` does

Each start, after a crash too, begins as a new interpreter would: the program's own modules are imported
again. Modules of installed packages stay; state in their globals is shared by all processes.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import logging
import os
import sys
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fathom.model.user import User
from fathom.seams.process import Inside
from fathom.sim.foreign import patches
from fathom.sim.foreign.machine import Exited, ForeignDomain, Machine
from fathom.sim.world.process import SimProcess
from fathom.sim.world.world import World

HOME = Path(__file__).parent / "home"

# As the kubelet: how long after its end a program is started again.
RESTART_S = 10.0

# Would lead out of the world, or to another cluster; or tell the program that it is being tested.
NOT_INHERITED = frozenset(
    {
        *("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "SSL_CERT_FILE"),
        *("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER"),
    }
)

# Installed packages that keep connections in globals: imported again at each start.
KEEPS_CONNECTIONS = ("kr8s",)


def run_program(
    world: World,
    name: str,
    main: Callable[[], Any],
    *,
    server: int = 1,
    account: User | None = None,
    env: Mapping[str, str] | None = None,
    restart: bool = False,
) -> SimProcess:
    """Start `main` as a process. It may be async, or block: what blocks waits in virtual time. When it
    returns the process ends; when it raises it is started again, as a container is. `restart`: always."""
    patches.install()

    def entry(inside: Inside) -> Machine:
        machine = Machine(inside, name, environment=_environment(name, env or {}), on_exit=ended)
        inside.domain.machine = machine  # type: ignore[attr-defined]  # a ForeignDomain, by `domain_type`
        process.machines.append(machine)
        machine.take_over()  # The rest of this input is its own; ForeignDomain does it for later ones.
        machine.begin(lambda: _whole(main))
        return machine

    def ended(error: BaseException | None) -> None:
        failed = error is not None and not (isinstance(error, SystemExit) and not error.code)
        world.engine.process_changed(process, _how_it_ended(error))
        if not isinstance(error, Exited) and (failed or restart):
            process.doom_s = RESTART_S

    process = world.process(name, entry, server=server, account=account)
    process.domain_type = ForeignDomain
    process.shares = False
    return process


def _whole(main: Callable[[], Any]) -> Any:
    patches.install()  # For modules that were imported since.
    for package in KEEPS_CONNECTIONS:
        _forget(lambda module, package=package: module.__name__.partition(".")[0] == package)  # type: ignore[misc]
    result = main()
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def _how_it_ended(error: BaseException | None) -> str:
    if error is None:
        return "ends"
    if isinstance(error, Exited):
        return f"ends on {error}"
    words = str(error).splitlines()
    return f"ends with {type(error).__name__}{': ' + words[0] if words else ''}"


def _environment(name: str, more: Mapping[str, str]) -> dict[bytes, bytes]:
    environment = {key: value for key, value in os.environ.items() if key not in NOT_INHERITED}
    own = {"HOME": str(HOME), "KUBECONFIG": str(HOME / ".kube/config"), "HOSTNAME": name, "TZ": "UTC"}
    return {os.fsencode(key): os.fsencode(value) for key, value in {**environment, **own, **more}.items()}


# Operators.


def run_operator(
    world: World,
    name: str,
    path: str | Path | None = None,
    *,
    module: str | None = None,
    server: int = 1,
    account: User | None = None,
    env: Mapping[str, str] | None = None,
    namespaces: Collection[str] = (),
    peering: str | None = None,
    priority: int | None = None,
) -> SimProcess:
    """Start a kopf operator, as `kopf run PATH` or `kopf run -m MODULE` does: cluster-wide, or in these
    namespaces. `peering`: the name of its peering object; without one it watches alone."""
    load = _loader_of(path, module)

    def main() -> None:
        import kopf  # noqa: PLC0415 - only for who has it

        _order_kinds_alike()
        _log_what_happens()
        registry = _new_registry()
        kopf.set_default_registry(registry)
        load()
        kopf.run(
            registry=registry,
            clusterwide=not namespaces,
            namespaces=tuple(namespaces),
            standalone=peering is None,
            peering_name=peering,
            priority=priority,
        )

    return run_program(world, name, main, server=server, account=account, env=env, restart=True)


def _loader_of(path: str | Path | None, module: str | None) -> Callable[[], ModuleType]:
    if (path is None) == (module is None):
        raise ValueError(
            "name the operator by its file or by its module: run('operator.py'), run(module='my.op')"
        )
    if module is not None:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            raise ModuleNotFoundError(f"there is no operator {module}: install it, or set PYTHONPATH")
        return lambda: import_afresh(module)
    file = Path(str(path)).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"there is no operator at {path}")
    return lambda: load_afresh(file)


def _new_registry() -> Any:
    """As `kopf run` has it: it logs in by the libraries that are installed."""
    from kopf._core.intents.registries import SmartOperatorRegistry  # noqa: PLC0415 - only for who has it

    return SmartOperatorRegistry()


def _log_what_happens() -> None:
    """As `kopf run` sets it, but for kopf alone. What is not logged is no Event either, where an operator has
    its log lines posted."""
    logger = logging.getLogger("kopf")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)


def _order_kinds_alike() -> None:
    """kopf keeps the kinds that it serves in sets, and starts its watches in their order, which follows from
    hashes of strings: they differ between interpreters. These hashes do not."""
    from kopf._cogs.structs import references  # noqa: PLC0415 - only for who has it

    references.Resource.__hash__ = _hash_of_kind  # type: ignore[method-assign,assignment]
    references.Selector.__hash__ = _hash_of_kind  # type: ignore[method-assign,assignment]


def _hash_of_kind(kind: Any) -> int:
    named = (kind.group, kind.version, kind.plural)
    return zlib.crc32("/".join(name if isinstance(name, str) else "" for name in named).encode())


def load_afresh(file: Path) -> ModuleType:
    """Import a file, and the modules beside it, as a new interpreter would."""
    folder = str(file.parent)
    there = _THERE_BEFORE.setdefault(folder, frozenset(sys.modules))
    _forget(lambda module: _is_within(module, folder) and module.__name__ not in there)
    if folder not in sys.path:
        sys.path.insert(0, folder)
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
    package = module.partition(".")[0]
    _forget(lambda loaded: loaded.__name__.partition(".")[0] == package)
    return importlib.import_module(module)


# Folder of a program -> the modules that were loaded before it ran first: a test's own, for example.
_THERE_BEFORE: dict[str, frozenset[str]] = {}


def _is_within(module: ModuleType, folder: str) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(folder + os.sep)


def _forget(concerns: Callable[[ModuleType], bool]) -> None:
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name != "__main__" and concerns(module):
            del sys.modules[name]
