"""The threads of a foreign process: greenlets, one of which runs at a time, until it waits.

    thread ──park(waiter)──> the Domain, which handles other inputs ──waiter.wake()──> the thread goes on

A thread changes only where it waits. So there are no data races to explore within one process; what is
explored is the order of its inputs, as for every process of a world.
"""

from __future__ import annotations

import math
import sys
import threading
from asyncio import events
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit, getcurrent, greenlet

from fathom.seams.domain import FAR_S
from fathom.sim.world.outside_guard import refuse

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine

# A dying thread whose cleanup waits this often is left as it is, until the interpreter ends.
WAITS_WHILE_DYING_MAX = 100

BLOCKED_LOOP = "nothing can wait here: this code does not run in a thread of the program"


class Waiter:
    """One wait of one thread. It is over when somebody wakes it, or when its time is up."""

    __slots__ = ("_machine", "done", "thread", "woken")

    def __init__(self, machine: Machine, thread: ForeignThread) -> None:
        self._machine = machine
        self.thread = thread
        self.done = False
        self.woken = False  # False when it is done: its time was up.

    @property
    def wanted(self) -> bool:
        """Whether its thread still waits, and lives."""
        return not self.done and not self._machine.dead

    def wake(self) -> None:
        if not self.done:
            self.woken = True
            self._end()

    def expire(self) -> None:
        if not self.done:
            self._end()

    def _end(self) -> None:
        self.done = True
        self._machine.go_on_soon(self.thread)


class ForeignThread(greenlet):  # type: ignore[misc]  # greenlet has no types
    """`shown`: the threading.Thread that the program sees. `done`: wakes the threads that join this one."""

    def __init__(
        self, machine: Machine, shown: threading.Thread, run: Callable[[], Any], number: int
    ) -> None:
        super().__init__(self._main)
        self.machine = machine
        self.shown = shown
        self.number = number
        self.error: BaseException | None = None
        self.joining: list[Waiter] = []
        self.over = False
        self.waits_while_dying = 0
        # What the interpreter keeps for each operating system thread; exchanged when threads take turns.
        self.running_loop: Any = None
        self.hooks: tuple[Any, Any] = (None, None)
        self.own_loop: Any = None  # Of `asyncio.set_event_loop`.
        self._work = run

    def _main(self) -> None:
        try:
            self._work()
        except GreenletExit:
            pass
        except BaseException as error:  # The machine decides: a thread's error does not end its process.
            self.error = error
        finally:
            self.over = True
            self.shown._is_stopped = True  # type: ignore[attr-defined]  # read by Thread's own methods
            for waiter in self.joining:
                waiter.wake()
        self.machine.thread_ended(self)

    def take_turn(self, *thrown: Any) -> None:
        """Run the thread until it waits or ends. Called by the Domain."""
        outer, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        self.parent = getcurrent()
        events._set_running_loop(self.running_loop)
        sys.set_asyncgen_hooks(*self.hooks)
        try:
            if thrown:
                self.throw(*thrown)
            else:
                self.switch()
        finally:
            self.running_loop, self.hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(outer)


def current_thread() -> ForeignThread | None:
    """The foreign thread that runs now; None in the Domain."""
    current = getcurrent()
    return current if isinstance(current, ForeignThread) else None


def new_waiter() -> Waiter:
    """For the thread that runs now."""
    thread = current_thread()
    if thread is None:
        raise refuse("a blocking call", BLOCKED_LOOP)
    return Waiter(thread.machine, thread)


def park(waiter: Waiter, timeout_s: float | None = None, *, until_ns: int | None = None) -> bool:
    """Wait until the waiter is woken, or the time is up. Returns whether it was woken."""
    thread = waiter.thread
    machine = thread.machine
    if machine.dead:
        raise _dying(thread)
    if timeout_s is not None:
        until_ns = machine.domain.now_ns + math.ceil(min(max(timeout_s, 0.0), FAR_S / 2) * 1e9)
    timer = None if until_ns is None else machine.domain._at(until_ns, waiter.expire, (), machine.kernel)
    try:
        while not waiter.done:
            thread.parent.switch()
            machine.handle_signals(thread)
    finally:
        if timer is not None:
            timer.cancel()
    return waiter.woken


def _dying(thread: ForeignThread) -> Any:
    """A process that ended cannot wait: its cleanup goes on only as far as it needs nobody."""
    thread.waits_while_dying += 1
    if thread.waits_while_dying > WAITS_WHILE_DYING_MAX:
        _LEFT.append(thread)
        thread.parent.switch()  # For ever.
    return GreenletExit()


_LEFT: list[ForeignThread] = []
