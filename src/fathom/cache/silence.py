"""Detects that a watch receives nothing any more: a connection that died unnoticed, a server that hangs.

How long silence is normal depends on the server. The request asks for frequent bookmarks. fathom's servers
promise them at the end of a WatchList; of others the stream shows whether they come. Until then, the timeout
is that for a server which sends one a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fathom.cache.scope import ListPace
from fathom.client.events import BOOKMARK, Event
from fathom.seams.loop_clock import loop_now_s
from fathom.seams.seam import Stream

# Bookmarks in a row at the requested interval: a server that ignores it may happen to send two.
PROMPT_MIN = 3


class Silence:
    def __init__(self, pace: ListPace) -> None:
        self._pace = pace
        self._prompt = 0  # Bookmarks in a row at the requested interval, up to PROMPT_MIN.
        self._bookmark_s = float("-inf")  # When the last one came.
        self._heard_s = 0.0
        self._stream: Stream | None = None  # Being watched.
        self._timer: asyncio.TimerHandle | None = None
        self._limit_s = float("inf")  # Of the stream being watched.
        self.broken = False  # The last stream was ended because of its silence.

    @property
    def patience_s(self) -> float:
        pace = self._pace
        if self._prompt >= PROMPT_MIN:
            return min(self._limit_s, pace.bookmark * pace.missing_max)
        return min(self._limit_s, pace.plain_bookmark * pace.plain_missing_max)

    @property
    def silent_s(self) -> float:
        return loop_now_s() - self._heard_s

    @contextmanager
    def watching(self, stream: Stream, *, limit_s: float = float("inf")) -> Iterator[None]:
        """A stream that falls silent within is ended: its reader sees the end. `limit_s`: after so long at
        the latest, whatever the server's bookmarks are."""
        self._stream, self._limit_s = stream, limit_s
        self.broken = False
        self._heard_s, self._bookmark_s = loop_now_s(), float("-inf")
        self._arm()
        try:
            yield
        finally:
            self._stream = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def promise(self, bookmark_s: float) -> None:
        """The server says how often it sends bookmarks."""
        if bookmark_s <= self._pace.bookmark:
            self._prompt = PROMPT_MIN

    def heard(self, events: Sequence[Event] = ()) -> None:
        """The server has sent something that is not outdated."""
        self._heard_s = loop_now_s()
        if self._prompt < PROMPT_MIN and any(event.type == BOOKMARK for event in events):
            in_time = self._heard_s - self._bookmark_s <= 2 * self._pace.bookmark
            self._prompt = self._prompt + 1 if in_time else 1
            self._bookmark_s = self._heard_s
            if self._prompt == PROMPT_MIN:
                self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._arm_after(self._heard_s + self.patience_s - loop_now_s())

    def _arm_after(self, left_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(left_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._stream is None:
            return
        # With a margin: a rounding error must not make it wait for a nanosecond more.
        now_s, patience_s = loop_now_s(), self.patience_s
        if now_s - self._heard_s >= patience_s - 1e-6:
            self.broken = True
            self._stream.end()
        else:
            self._arm_after(self._heard_s + patience_s - now_s)
