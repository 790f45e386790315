"""What threads of a foreign process wait for each other with: Lock, RLock and SimpleQueue in virtual time.

`threading` builds Condition, Event, Semaphore and Barrier from these locks, `queue` its queues and
`concurrent.futures` its futures; so all of those wait in virtual time too. A lock is handed to who waited
longest: the order follows from the run.
"""

from __future__ import annotations

import queue
from collections import deque
from typing import Any, Self

from greenlet import getcurrent

from fathom.sim.foreign.threads import Waiter, new_waiter, park
from fathom.sim.world.outside_guard import watch


class Lock:
    def __init__(self) -> None:
        self._held = False
        self._holder: Any = None  # The machine: one that crashed holds nothing any more.
        self._waiting: deque[Waiter] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._held or (self._holder is not None and self._holder.dead):
            self._held, self._holder = True, watch.visitor
            return True
        if not blocking:
            return False
        waiter = new_waiter()
        self._waiting.append(waiter)
        return park(waiter, timeout if timeout >= 0 else None)

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        while self._waiting:
            waiter = self._waiting.popleft()
            if waiter.wanted:
                waiter.wake()  # It holds the lock from now on.
                self._holder = waiter.thread.machine
                return
        self._held = False

    def locked(self) -> bool:
        return self._held

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]  # as the real one

    acquire_lock, release_lock, locked_lock = acquire, release, locked

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock:
    """Its owner is a greenlet; the Domain counts as one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: Any = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        current = getcurrent()
        if self._owner is current:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = current, 1
        return True

    def release(self) -> None:
        if self._owner is not getcurrent():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    # For threading.Condition.

    def _is_owned(self) -> bool:
        return self._owner is getcurrent()

    def _release_save(self) -> tuple[int, Any]:
        count, owner = self._count, self._owner
        self._count, self._owner = 0, None
        self._lock.release()
        return count, owner

    def _acquire_restore(self, state: tuple[int, Any]) -> None:
        self._lock.acquire()
        self._count, self._owner = state

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]  # as the real one


class SimpleQueue:
    """As `queue.SimpleQueue`, which waits with a real lock."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: deque[Waiter] = deque()
        self._watching: list[Waiter] = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)
        watching, self._watching = self._watching, []
        for watcher in watching:
            watcher.wake()
        while self._waiting:
            waiter = self._waiting.popleft()
            if waiter.wanted:
                waiter.wake()
                return

    put_nowait = put

    def call_when_filled(self, waiter: Waiter) -> None:
        """Wake it at the next `put`. It takes nothing: whoever waits to get is woken, too."""
        self._watching.append(waiter)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        while not self._items:
            if not block:
                raise queue.Empty
            waiter = new_waiter()
            self._waiting.append(waiter)
            if not park(waiter, timeout):
                raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)
