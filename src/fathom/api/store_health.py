"""Whether commits can be written: for `readyz`, so that nobody is sent to a server that can only read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from fathom.model.body import Body
from fathom.store.protocol import (
    Committed,
    Conflict,
    Delete,
    Expect,
    Outcome,
    Put,
    Store,
    StoreUnavailable,
    Write,
)

# Beside all objects. Large enough that a commit of it proves room for an ordinary one.
TRIAL, TRIAL_BYTES = "/health/trial", 64 << 10


class StoreHealth:
    """All commits go through here, so that the last one tells."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._failing = False  # The last commit was not written, and none has been since.
        self._trying: asyncio.Task[None] | None = None

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        try:
            outcome = await self._store.commit(preconditions, writes)
        except StoreUnavailable:
            self._failing = True
            raise
        if not isinstance(outcome, Conflict):  # That one is decided without writing.
            self._failing = not isinstance(outcome, Committed)
        return outcome

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
            await self.commit((), (Put(TRIAL, Body({"padding": "x" * TRIAL_BYTES})),))
            await self.commit((), (Delete(TRIAL),))
