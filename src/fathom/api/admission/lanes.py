"""Lanes: writers of one server that charge the same account take turns.

    1. Twenty creates read the quota at revision 7 and decide that there is room.
    2. All twenty commit, each expecting revision 7. One succeeds; nineteen decide again, at 8; and so on.

That is correct but wasteful, and a writer may lose often enough to give up. So the keys that charges write
are lanes: at most one commit of this server is in progress on each, and a writer that had to wait is admitted
again, on the state that the commit before has written. Against other servers on the same store, a writer
still loses races.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fathom.api.admission.attempt import Charge


def lanes_of(charges: Iterable[Charge]) -> tuple[str, ...]:
    """The keys that are written beside the object, in one fixed order, so that two writers never wait for
    each other."""
    if not charges:
        return ()
    return tuple(sorted({write.key for charge in charges for write in charge.writes}))


class _Open:
    """For the many writes that charge nothing: no waiting, and almost no cost."""

    async def __aenter__(self) -> bool:
        return False

    async def __aexit__(self, *_: object) -> None: ...


_OPEN = _Open()


class Lanes:
    def __init__(self) -> None:
        # Each lane with the number of writers in it or waiting for it; an empty lane is removed.
        self._lanes: dict[str, tuple[asyncio.Lock, int]] = {}

    def hold(self, keys: tuple[str, ...]) -> AbstractAsyncContextManager[bool]:
        """Hold the lanes exclusively. Yields whether the writer had to wait: then its earlier decision is
        stale."""
        return self._hold(keys) if keys else _OPEN

    @asynccontextmanager
    async def _hold(self, keys: tuple[str, ...]) -> AsyncIterator[bool]:
        waited = any(key in self._lanes for key in keys)
        held: list[asyncio.Lock] = []
        for key in keys:
            lock, writers = self._lanes.get(key) or (asyncio.Lock(), 0)
            self._lanes[key] = (lock, writers + 1)
            held.append(lock)
        taken = 0
        try:
            for lock in held:
                await lock.acquire()
                taken += 1
            yield waited
        finally:
            for lock in held[:taken]:
                lock.release()
            for key in keys:
                self._leave(key)

    def _leave(self, key: str) -> None:
        lock, writers = self._lanes[key]
        if writers == 1:
            del self._lanes[key]
        else:
            self._lanes[key] = (lock, writers - 1)
