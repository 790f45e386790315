"""Run a program that was not written for fathom as a process of a world.

    run_program(world, "backup", main)                 # any function, async or not
    run_program(world, "op", "main.py", args=["-v"])   # as `python main.py -v` does
    run_program(world, "op", module="my.controller")   # as `python -m my.controller` does
    run_operator(world, "op", "my_operator.py")        # as `kopf run my_operator.py` does
    run_operator(world, "op", module="my.operator")    # as `kopf run -m my.operator` does

Each start, after a crash too, begins as a new interpreter would: the program's own modules are imported
again. Modules of installed packages stay; state in their globals is shared by all processes.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import logging
import os
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fathom.model.user import User
from fathom.seams.process import Inside
from fathom.sim.foreign import imports, interpreter_end, patches, service_account
from fathom.sim.foreign.commands import Commands
from fathom.sim.foreign.hosts import Hosts
from fathom.sim.foreign.logs import LoggingState
from fathom.sim.foreign.machine import API_ADDRESS, Exited, ForeignDomain, Machine
from fathom.sim.foreign.service_account import HOME
from fathom.sim.world.process import SimProcess
from fathom.sim.world.world import World

# As the kubelet: how long after its end a program is started again.
RESTART_S = 10.0

# Would lead out of the world, or to another cluster; or tell the program that it is being tested.
NOT_INHERITED = frozenset(
    {
        *(
            "KUBECONFIG",
            "KUBERNETES_SERVICE_HOST",
            "KUBERNETES_SERVICE_PORT",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
        ),
        *("http_proxy", "https_proxy", "all_proxy", "SSL_CERT_FILE"),
        *("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER"),
    }
)


def run_program(
    world: World,
    name: str,
    main: Callable[[], Any] | str | Path | None = None,
    *,
    module: str | None = None,
    args: Sequence[str] = (),
    server: int = 1,
    account: User | None = None,
    env: Mapping[str, str] | None = None,
    hosts: Hosts | None = None,
    commands: Commands | None = None,
    restart: bool | None = None,
) -> SimProcess:
    """Start a program as a process: a function, a file or a module. It may be async, or block: what blocks
    waits in virtual time. When it raises it is started again, as a container is. When it ends without an
    error, a file or a module is started again, and a function is not; `restart` decides otherwise."""
    run, shown = (main, name) if callable(main) and module is None else _runner_of(main, module)
    around = Surroundings((shown, *args), server, account, env or {}, hosts or {}, commands or {})
    return _start(world, name, run, around, restart=not callable(main) if restart is None else restart)


class Surroundings(NamedTuple):
    """What a program finds when it starts."""

    argv: tuple[str, ...]
    server: int
    account: User | None
    env: Mapping[str, str]
    hosts: Hosts
    commands: Commands


def _start(
    world: World, name: str, main: Callable[[], Any], around: Surroundings, *, restart: bool
) -> SimProcess:
    patches.install()
    logs = LoggingState()

    def entry(inside: Inside) -> Machine:
        if process.machines:
            logs.restore()
        environment = _environment(name, around.env)
        machine = Machine(
            inside,
            name,
            argv=around.argv,
            environment=environment,
            hosts=around.hosts,
            commands=around.commands,
            logs=logs,
            on_exit=ended,
        )
        inside.domain.machine = machine  # type: ignore[attr-defined]  # a ForeignDomain, by `domain_type`
        process.machines.append(machine)
        machine.take_over()  # The rest of this input is its own; ForeignDomain does it for later ones.
        machine.begin(lambda: _whole(machine, main))
        return machine

    def ended(error: BaseException | None) -> None:
        failed = error is not None and not (isinstance(error, SystemExit) and not error.code)
        machine = process.machines[-1]
        machine.ending, machine.ended_s = _how_it_ended(error), world.now_s
        world.engine.process_changed(process, machine.ending)
        if not isinstance(error, Exited) and (failed or restart):
            process.doom_s = RESTART_S

    process = world.process(name, entry, server=around.server, account=around.account)
    process.domain_type = ForeignDomain
    process.shares = False
    return process


def _whole(machine: Machine, main: Callable[[], Any]) -> None:
    patches.install()  # For modules that were imported since.
    imports.forget_shared_packages()
    service_account.use_own_kubeconfig()
    try:
        result = main()
        if inspect.iscoroutine(result):
            asyncio.run(result)
    except BaseException as error:
        if not machine.dead:  # Else the run is over, and what it raises now is of no interest.
            machine.print_error(error)
            interpreter_end.finish(machine)
        raise
    if not machine.dead:
        interpreter_end.finish(machine)


def _how_it_ended(error: BaseException | None) -> str:
    if error is None:
        return "ends"
    if isinstance(error, Exited):
        return f"ends on {error}"
    words = str(error).splitlines()
    return f"ends with {type(error).__name__}{': ' + words[0] if words else ''}"


def _environment(name: str, more: Mapping[str, str]) -> dict[bytes, bytes]:
    environment = {key: value for key, value in os.environ.items() if key not in NOT_INHERITED}
    own = {"HOME": str(HOME), "HOSTNAME": name, "TZ": "UTC"}
    whole = {**environment, **service_account.variables(API_ADDRESS), **own, **more}
    return {os.fsencode(key): os.fsencode(value) for key, value in whole.items()}


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
    hosts: Hosts | None = None,
    commands: Commands | None = None,
    namespaces: Collection[str] = (),
    peering: str | None = None,
    priority: int | None = None,
) -> SimProcess:
    """Start a kopf operator, as `kopf run PATH` or `kopf run -m MODULE` does: cluster-wide, or in these
    namespaces. `peering`: the name of its peering object; without one it watches alone."""
    load = _loader_of(path, module)

    def main() -> None:
        import kopf  # noqa: PLC0415 - only for who has it

        _begin_kopf_anew()
        load()
        kopf.run(
            registry=kopf.get_default_registry(),
            clusterwide=not namespaces,
            namespaces=tuple(namespaces),
            standalone=peering is None,
            peering_name=peering,
            priority=priority,
        )

    argv = ("kopf", "run", str(path or module))
    around = Surroundings(argv, server, account, env or {}, hosts or {}, commands or {})
    return _start(world, name, main, around, restart=True)


def _loader_of(path: str | Path | None, module: str | None) -> Callable[[], object]:
    if module is not None and path is None:
        return partial(imports.import_afresh, _found(module))
    return partial(imports.load_afresh, _file(path, module))


def _runner_of(path: Any, module: str | None) -> tuple[Callable[[], None], str]:
    """How a file or a module is run as a program, and what it finds as `sys.argv[0]`."""
    if module is not None and path is None:
        _found(module)
        return (lambda: _as_main(partial(imports.run_module, module))), module
    file = _file(path, module)
    return (lambda: _as_main(partial(imports.run_file, file))), str(file)


def _as_main(run: Callable[[], None]) -> None:
    if importlib.util.find_spec("kopf") is not None:  # It may use kopf without `kopf run`.
        _begin_kopf_anew()
    run()


def _file(path: str | Path | None, module: str | None) -> Path:
    if path is None or module is not None:
        raise ValueError(
            "name the operator by its file or by its module: run('operator.py'), run(module='my.op')"
        )
    file = Path(str(path)).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"there is no operator at {path}")
    return file


def _found(module: str) -> str:
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise ModuleNotFoundError(f"there is no operator {module}: install it, or set PYTHONPATH")
    return module


def _begin_kopf_anew() -> None:
    """Without the handlers of an earlier start. The registry is as `kopf run` has it: it logs in by the
    libraries that are installed."""
    import kopf  # noqa: PLC0415 - only for who has it
    from kopf._core.intents.registries import SmartOperatorRegistry  # noqa: PLC0415

    _order_kinds_alike()
    _log_what_happens()
    kopf.set_default_registry(SmartOperatorRegistry())


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
