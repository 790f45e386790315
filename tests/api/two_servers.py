"""Two servers of one store; something may happen just before the next commit of the second one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.api.harness import Api, serving

from fathom.store.memory import MemoryStore
from fathom.store.protocol import Expect, Outcome, Write


class Interrupted:
    """A server's way to the store. `first` runs once, before the next commit of a key that begins with one of
    `prefixes`."""

    def __init__(self, store: MemoryStore, prefixes: tuple[str, ...]) -> None:
        self._store = store
        self._prefixes = prefixes
        self.first: Callable[[], Awaitable[object]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        first = self.first
        if first is not None and any(write.key.startswith(self._prefixes) for write in writes):
            self.first = None
            await first()
        return await self._store.commit(preconditions, writes)

    async def close(self) -> None: ...


@asynccontextmanager
async def two_servers(data: Path, *prefixes: str) -> AsyncIterator[tuple[Api, Api, Any]]:
    """One, the other, and the `Interrupted` way of the other to the store."""
    async with AsyncExitStack() as stack:
        store, servers = MemoryStore(), []
        for name in ("one", "other"):
            (data / name).mkdir()
            way: Any = Interrupted(store, prefixes)
            servers.append(await stack.enter_async_context(serving(data / name, way, shared_store=True)))
        yield servers[0], servers[1], way
