"""What `multiprocessing` and `os` offer around child processes, which a foreign process cannot have.

Queues and locks of `multiprocessing` are used inside of one process, too, by its ThreadPool for example. Here
they are as those of `queue` and `threading`. What would start a real process is refused.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

from fathom.sim.foreign import locks
from fathom.sim.foreign.threads import new_waiter, park

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine

Arguments = tuple[Any, ...]

# Of `multiprocessing`, as of `threading`.
LOCKS = ("Lock", "RLock", "Event", "Condition", "Semaphore", "BoundedSemaphore", "Barrier")
QUEUES = ("Queue", "JoinableQueue", "SimpleQueue")

# Of `os`.
STARTERS = (
    *("execv", "execve", "posix_spawn", "posix_spawnp", "fork", "forkpty", "system"),
    *("spawnv", "spawnve", "spawnvp", "spawnvpe"),
)


class PoolQueue(locks.SimpleQueue):
    """As `multiprocessing.SimpleQueue`; its `_reader` is what `connection.wait` waits for."""

    @property
    def _reader(self) -> PoolQueue:
        return self

    @property
    def _writer(self) -> PoolQueue:
        return self

    def send(self, item: Any) -> None:
        self.put(item)

    def recv(self) -> Any:
        return self.get()

    def close(self) -> None:
        pass


class SharedQueue(queue.Queue[Any]):
    """As `multiprocessing.Queue`."""

    def close(self) -> None:
        pass

    def join_thread(self) -> None:
        pass

    cancel_join_thread = join_thread


def wait_for_readers(readers: Any, timeout_s: float | None) -> list[Any]:
    """As `multiprocessing.connection.wait`, over queues."""
    queues = list(readers)
    if not any(not queue.empty() for queue in queues):
        waiter = new_waiter()
        for waited in queues:
            waited.call_when_filled(waiter)
        park(waiter, timeout_s)
    return [queue for queue in queues if not queue.empty()]


def new_queue(machine: Machine, original: Any, args: Arguments, kwargs: dict[str, Any]) -> Any:
    return SharedQueue(*args, **kwargs)


def new_pool_queue(machine: Machine, original: Any, args: Arguments, kwargs: dict[str, Any]) -> Any:
    return PoolQueue()


def of_threading(name: str) -> Any:
    return lambda machine, original, args, kwargs: getattr(threading, name)(*args, **kwargs)


def of_context(answer: Any) -> Any:
    """A method of a context: without its `self`."""
    return lambda machine, original, args, kwargs: answer(machine, original, args[1:], kwargs)


def wait(machine: Machine, original: Any, args: Arguments, kwargs: dict[str, Any]) -> list[Any]:
    readers, *rest = args
    if not all(isinstance(reader, PoolQueue) for reader in readers):
        return original(*args, **kwargs)  # type: ignore[no-any-return]
    return wait_for_readers(readers, rest[0] if rest else kwargs.get("timeout"))
