"""When a fathom process should end: on a signal, or when the supervisor that started it is gone."""

from __future__ import annotations

import asyncio
import os
import signal

# Set by the supervisor for its children: its process id.
SUPERVISOR = "FATHOM_SUPERVISOR_PID"
# The file descriptor of the lock that all children share; pods that an agent starts must not inherit it.
LOCK = "FATHOM_SUPERVISOR_LOCK"
# How often the supervisor has restarted this part.
RESTARTS = "FATHOM_SUPERVISOR_RESTARTS"
LOOK_S = 0.5


def restarts() -> int:
    """How often the supervisor has restarted this part; 0 without a supervisor. Call it once: it removes the
    variable, so that pods which an agent starts do not inherit it."""
    text = os.environ.pop(RESTARTS, "")
    return int(text) if text.isdecimal() else 0


def stop_event() -> asyncio.Event:
    """An event on the running loop, set by SIGINT, SIGTERM, a closed terminal, or when the supervisor is
    gone: nothing would restart us, and we would collide with the next supervisor's children."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # `nohup` ignores it.
            loop.add_signal_handler(number, stop.set)
    if lock := os.environ.pop(LOCK, ""):
        os.set_inheritable(int(lock), False)
    if supervisor := os.environ.pop(SUPERVISOR, ""):
        _look(loop, stop, int(supervisor))
    return stop


def _look(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, supervisor: int) -> None:
    if os.getppid() != supervisor:
        stop.set()
    elif not stop.is_set():
        loop.call_later(LOOK_S, _look, loop, stop, supervisor)
