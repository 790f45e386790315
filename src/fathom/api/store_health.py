"""Whether the store accepts commits: for `readyz`, to keep clients from servers that can only read."""

from __future__ import annotations

import asyncio
import contextlib

from fathom.model.body import Body
from fathom.store.protocol import (
    Committed,
    Conflict,
    Delete,
    Outcome,
    Put,
    Store,
    StoreUnavailable,
)

# A key outside of all objects. Large enough that committing it proves room for an ordinary object.
TRIAL, TRIAL_BYTES = "/health/trial", 64 << 10


class StoreHealth:
    """Every commit reports its outcome here, so the last commit shows whether the store accepts writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._failing = False  # The last commit failed to be written, and none has succeeded since.
        self._trying: asyncio.Task[None] | None = None

    def saw(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Conflict):  # A conflict is decided without writing.
            self._failing = not isinstance(outcome, Committed)

    def failed(self) -> None:
        self._failing = True

    def problem(self) -> str:
        """Why commits are not written, '' if no problem is known. Names no files or addresses: anonymous
        clients may ask."""
        if not self._failing:
            return self._store.problem()
        if self._trying is None or self._trying.done():
            self._trying = asyncio.get_running_loop().create_task(self._try())
        return self._store.problem() or "the last commit could not be written"

    async def _try(self) -> None:
        """Commit a trial key: without other writes, nothing else would find out that the store works
        again."""
        with contextlib.suppress(StoreUnavailable):
            self.saw(await self._store.commit((), (Put(TRIAL, Body({"padding": "x" * TRIAL_BYTES})),)))
            self.saw(await self._store.commit((), (Delete(TRIAL),)))
