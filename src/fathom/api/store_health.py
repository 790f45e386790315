"""Whether commits can be written: for `readyz`, so that nobody is sent to a server that can only read."""

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

# Beside all objects. Large enough that a commit of it proves room for an ordinary one.
TRIAL, TRIAL_BYTES = "/health/trial", 64 << 10


class StoreHealth:
    """Whoever commits says how it ended, so that the last commit tells."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._failing = False  # The last commit was not written, and none has been since.
        self._trying: asyncio.Task[None] | None = None

    def saw(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Conflict):  # That one is decided without writing.
            self._failing = not isinstance(outcome, Committed)

    def failed(self) -> None:
        self._failing = True

    def problem(self) -> str:
        """What keeps commits from being written, '' if nothing is known. Says nothing of files or addresses:
        anybody may ask."""
        if not self._failing:
            return self._store.problem()
        if self._trying is None or self._trying.done():
            self._trying = asyncio.get_running_loop().create_task(self._try())
        return "the last commit could not be written"

    async def _try(self) -> None:
        """Where nobody else writes, nobody would find out that it works again."""
        with contextlib.suppress(StoreUnavailable):
            self.saw(await self._store.commit((), (Put(TRIAL, Body({"padding": "x" * TRIAL_BYTES})),)))
            self.saw(await self._store.commit((), (Delete(TRIAL),)))
