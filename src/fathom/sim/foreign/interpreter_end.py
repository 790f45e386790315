"""What an interpreter does when its program's first thread has ended: it waits for the other threads, and
then calls what was registered with `atexit`. A process that is killed, or calls `os._exit`, does neither."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from concurrent.futures import thread as executor_thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine

PACKAGES = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
FRAMES_OF_OURS = 4  # Between the program's call of `atexit.register` and the function here.


def finish(machine: Machine) -> None:
    """In the program's first thread. A thread that is no daemon keeps its process alive, however long."""
    while others := [thread for thread in machine.threads if _keeps_alive(machine, thread)]:
        for thread in others:
            _end_if_idle(thread.shown)
        machine.join(others[0], None)
    while machine.at_exit:
        call, args, kwargs = machine.at_exit.pop()
        try:
            call(*args, **kwargs)
        except Exception:
            machine.output.write(traceback.format_exc())


def _keeps_alive(machine: Machine, thread: Any) -> bool:
    return thread is not machine.main and not thread.shown.daemon and not thread.over


def _end_if_idle(shown: Any) -> None:
    """A worker of an executor does the work that is left, and ends: `concurrent.futures` sees to that."""
    if getattr(shown, "_target", None) is executor_thread._worker:
        executor = shown._args[0]()
        if executor is not None:
            executor.shutdown(wait=False)


def register(machine: Machine, original: Any, args: Any, kwargs: Any) -> Any:
    """`atexit.register`, also as a decorator. What a package registers while it is imported is for the whole
    interpreter: it is not imported again at the next start."""
    if _is_import_of_a_package():
        return original(*args, **kwargs)
    call, *rest = args
    machine.at_exit.append((call, tuple(rest), kwargs))
    return call


def unregister(machine: Machine, original: Any, args: Any, kwargs: Any) -> None:
    machine.at_exit[:] = [entry for entry in machine.at_exit if entry[0] != args[0]]
    original(args[0])


def _is_import_of_a_package() -> bool:
    frame = sys._getframe(FRAMES_OF_OURS)
    return frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGES)
