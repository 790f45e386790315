"""When a process of ours should end: told by a signal, or orphaned by the supervisor that started it."""

from __future__ import annotations

import asyncio
import os
import signal

# Set by the supervisor for its children: its process id.
SUPERVISOR = "FATHOM_SUPERVISOR_PID"
# And the lock that all of them hold together, a file descriptor: not for the pods that an agent starts.
LOCK = "FATHOM_SUPERVISOR_LOCK"
# And how often it has started this part again.
RESTARTS = "FATHOM_SUPERVISOR_RESTARTS"
LOOK_S = 0.5


def restarts() -> int:
    """How often the supervisor has started this part again; nought where there is none. Asked once: what the
    environment says of us is not for the pods that an agent starts."""
    text = os.environ.pop(RESTARTS, "")
    return int(text) if text.isdecimal() else 0


def stop_event() -> asyncio.Event:
    """On the running loop. Set by SIGINT, SIGTERM, a terminal that is closed, or when the supervisor is gone:
    nobody would restart us, and the next supervisor's children would meet us."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # `nohup` wants to stay.
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
