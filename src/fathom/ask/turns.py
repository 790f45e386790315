"""Work that is done one at a time, with few who wait, and none for longer than its request may take."""

from __future__ import annotations

import asyncio

from fathom.model.errors import too_many_requests


class Turns:
    """`async with turns:` waits for the turn. Raises 429 where too many wait, or for too long."""

    def __init__(self, *, waiting_max: int, wait_s_max: float, what: str) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0  # With the one whose turn it is.
        self._waiting_max = waiting_max
        self._wait_s_max = wait_s_max
        self._what = what

    async def __aenter__(self) -> None:
        if self._waiting >= self._waiting_max:
            raise too_many_requests(f"{self._waiting_max} {self._what} are being made: ask again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_s_max):
                await self._turn.acquire()
        except TimeoutError:
            self._waiting -= 1
            raise too_many_requests(f"other {self._what} are being made: ask again later") from None
        except BaseException:
            self._waiting -= 1
            raise

    async def __aexit__(self, *_: object) -> None:
        self._waiting -= 1
        self._turn.release()
