"""Keeps one cache equal to the server: list, watch, resume, and list again when resuming is impossible.

             ┌───────────────────────── a watch cannot be resumed: 410, refused ──────────────────────┐
             v                                                                                        │
    list (WatchList, or pages) ──at the list's revision──> watch ──ended, silent, broken──> pause ──> watch
             │ older than what we have seen                  ^            after the last safe revision │
             └──> pause ──> list                             └─────────────────────────────────────────┘

Every wait has a deadline of its own, on the loop's clock: a stuck socket blocks nothing but its own request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from fathom.cache.indexed import AppliedChange, Change, IndexedCache, WentBack
from fathom.cache.listing import (
    EndNotSent,
    InitialEvents,
    NoWatchList,
    fetch_pages,
    open_watch,
    open_watch_list,
)
from fathom.cache.observer import (
    CacheBehind,
    CacheFailed,
    CacheObserver,
    CacheProbed,
    Dropped,
    Echoed,
    Listed,
    Resumed,
    Silent,
)
from fathom.cache.scope import CacheScope, ListPace
from fathom.cache.sharing import SharedParts
from fathom.cache.silence import Silence
from fathom.client.api import PAGE_OBJECTS, Api
from fathom.client.events import BOOKMARK, ERROR, Event, MalformedEvent, decode_events, error_of
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, key_of, metadata, uid_of
from fathom.seams.loop_clock import loop_now_s
from fathom.seams.seam import Stream

# Only fathom's servers know it; other servers ignore it.
BOOKMARK_HEADER = "Fathom-Bookmark-Seconds"

# The answer to a watch that cannot be resumed; a retry will not help.
EXPIRED = 410
SAY_IT_AGAIN = frozenset({401, 403, 404, 408, 429})

# After so many lists that broke before their end, one is read in pages.
BROKEN_LISTS_MAX = 2

# After so many lists whose end was not sent, this server's lists are always read in pages.
UNENDED_LISTS_MAX = 2

# Watches that end sooner are opened again after a pause: else such a server would get requests without end.
MOMENT_S = 1.0

Publish = Callable[[list[Change]], None]


class Reflector:
    def __init__(
        self,
        kind: str,
        scope: CacheScope,
        api: Api,
        cache: IndexedCache,
        publish: Publish,
        *,
        rng: random.Random,
        observer: CacheObserver,
        pace: ListPace,
        share: bool = True,
    ) -> None:
        self.kind = kind
        self.scope = scope
        self.cache = cache
        self._api = api.with_headers((BOOKMARK_HEADER, f"{pace.bookmark:g}"))
        self._publish = publish
        self._rng = rng
        self._observer = observer
        self._pace = pace
        self._sharing = SharedParts(scope.resource, cache.__len__) if share else None
        self._silence = Silence(pace)
        self._cause = "start"  # Why a list is needed; '' when a watch can resume where the last one ended.
        self._has_watch_list = True  # Until the server refuses it.
        self._broken_lists = 0  # In a row.
        self._unended_lists = 0  # Since the start.
        self._ended = ""  # How the last watch ended; '' when there is none to resume.
        self._opened_s = float("-inf")  # When this round's watch was requested.
        self._watching_s: float | None = None  # When it was opened.
        self._watching_from = 0  # And from which revision.
        self._failures = 0  # In a row, without a steady watch in between.
        self._expirations = 0  # Of them, watches that were too old to resume.

    async def run(self) -> None:
        """Runs for ever. Every failure is reported to the observer, and retried after a pause."""
        while True:
            self._watching_s = None
            try:
                self._ended = await self._round()
                pause_s = self._pause_after_end()
            except Exception as error:  # Also a bug, an index function's for example: reported, never silent.
                self._ended = self._note_failure(error)
                # The sum, not the larger: clients that all got "Retry-After: 1" must not return together.
                pause_s = self._server_pause(error) + self._pause_after_error(error)
                self._observer.note(CacheFailed(self.kind, _error_text(error), pause_s))
            if pause_s:
                await asyncio.sleep(pause_s)

    async def probe(self, *, timeout_s: float) -> bool:
        """Ask the server for its revision, and wait until the cache has reached it. Then the cache is known
        to be as new as the moment of the request, without a bookmark."""
        asked_s, had = loop_now_s(), self.cache.revision
        met, server_revision = False, had
        try:
            async with asyncio.timeout(timeout_s):
                server_revision = await self._ask_revision(asked_s)
                while self.cache.revision < server_revision:
                    await asyncio.wait([self.cache.next_move()])
                met = self.cache.synced and server_revision >= had
        except (TimeoutError, ApiError, MalformedEvent, WentBack):
            pass  # `met` stays False.
        if met:
            self.cache.heard(asked_s)
        self._observer.note(
            CacheProbed(self.kind, max(0, server_revision - had), met, loop_now_s() - asked_s)
        )
        return met

    async def _ask_revision(self, asked_s: float) -> int:
        """A kind that fits into one page is read whole, which updates the cache at once; of larger kinds one
        item is read, and the watch has to catch up."""
        small = self.cache.synced and len(self.cache) < PAGE_OBJECTS
        scope = self.scope
        page = await self._api.list_page(
            scope.resource, scope.namespace, limit=PAGE_OBJECTS if small else 1, **scope.options()
        )
        if small and not page.token:
            self._replace([self._keep_page(obj) for obj in page.items], page.revision, asked_s)
        return page.revision

    # One list, if it is needed, and one watch.

    async def _round(self) -> str:
        stream: Stream | None = None
        first_events: list[Event] = []
        try:
            if self._cause:
                stream, first_events = await self._list(self._cause)
                self._cause = self._ended = ""
            if stream is None:
                stream = await self._open()
            return await self._follow(stream, first_events)
        finally:
            if stream is not None:
                stream.close()

    async def _open(self) -> Stream:
        watch_s, after = self._pace.watch(self._rng), self.cache.safe
        self._opened_s = loop_now_s()
        stream = await open_watch(self._api, self.scope, after=after, watch_s=watch_s)
        if self._ended:
            self._observer.note(Resumed(self.kind, self._ended, after))
        return stream

    async def _list(self, cause: str) -> tuple[Stream | None, list[Event]]:
        """List all objects again. With WatchList the stream continues as a watch."""
        asked_s = loop_now_s()
        if self._has_watch_list and self._broken_lists < BROKEN_LISTS_MAX:
            try:
                return await self._stream_list(cause, asked_s)
            except NoWatchList:
                self._has_watch_list = False
            except EndNotSent:
                self._unended_lists += 1
                self._has_watch_list = self._unended_lists < UNENDED_LISTS_MAX
        pages = await fetch_pages(self._api, self.scope, self._keep_page)
        self._take_list(pages.objs, pages.revision, cause, asked_s)
        return None, []

    async def _stream_list(self, cause: str, asked_s: float) -> tuple[Stream, list[Event]]:
        watch_s = self._pace.watch(self._rng)
        self._opened_s = asked_s
        stream = await open_watch_list(self._api, self.scope, watch_s=watch_s)
        initial_events = InitialEvents(self._keep)
        try:
            with self._silence.watching(stream, limit_s=self._pace.list_silence):
                while not initial_events.take(await self._read(stream)):
                    self._silence.heard()
            self._silence.promise(initial_events.bookmark_s)
            self.cache.dated = initial_events.dated
            self._take_list(list(initial_events.objs.values()), initial_events.revision, cause, asked_s)
        except BaseException:
            stream.close()
            raise
        return stream, initial_events.rest

    async def _read(self, stream: Stream) -> list[Event]:
        """The next events of a list."""
        chunks = await stream.read()
        if chunks is None and self._silence.broken:
            raise EndNotSent
        if chunks is None:
            self._broken_lists += 1
            raise ApiError(0, "", "the list ended before it was complete")
        return self._decoded(chunks)

    async def _follow(self, stream: Stream, first_events: list[Event]) -> str:
        """Apply events until the stream ends; returns how it ended."""
        self._watching_s, self._watching_from = loop_now_s(), self.cache.safe
        with self._silence.watching(stream):
            stream.take_now = self._take_bookmark
            events: list[Event] | None = first_events
            while events is not None:
                if events:
                    self._apply(events)
                chunks = await stream.read()
                events = None if chunks is None else self._decoded(chunks)
        if self._silence.broken:
            self._observer.note(Silent(self.kind, self._silence.silent_s))
            return "silent"
        return "ended"

    def _take_bookmark(self, chunk: Any) -> bool:
        """Apply a chunk that is one bookmark, not encoded."""
        if isinstance(chunk, bytes) or len(chunk) != 1 or chunk[0][0] != BOOKMARK:
            return False
        try:
            self._apply(decode_events((chunk,)))
        except MalformedEvent:
            return False  # The reader raises it.
        return True

    def _decoded(self, chunks: list[object]) -> list[Event]:
        return decode_events(chunks, None if self._sharing is None else self._sharing.assemble)

    def _apply(self, events: list[Event]) -> None:
        good, error = _before_error(events)
        applied = AppliedChange()
        try:
            self.cache.apply(good, applied, now_s=loop_now_s(), opened_s=self._opened_s)
        finally:
            self._report(applied)
        if applied.fresh:
            self._silence.heard(good)
        if error is not None:
            raise error_of(error)

    def _report(self, applied: AppliedChange) -> None:
        if applied.again:
            self._observer.note(Dropped(self.kind, "again", applied.again))
        if applied.overtaken:
            self._observer.note(Dropped(self.kind, "overtaken", applied.overtaken))
        for lag_s in applied.echoes_s:
            self._observer.note(Echoed(self.kind, lag_s))
        if applied.changes:
            self._publish(applied.changes)

    def _take_list(self, objs: list[Obj], revision: int, cause: str, asked_s: float) -> None:
        changed = self._replace(objs, revision, asked_s)
        self._broken_lists = 0
        took_s = loop_now_s() - asked_s
        self._observer.note(Listed(self.kind, cause, revision, len(objs), changed, took_s))

    def _replace(self, objs: list[Obj], revision: int, asked_s: float) -> int:
        changes: list[Change] = []
        try:
            self.cache.replace(objs, revision, changes, asked_s=asked_s)
        except WentBack as error:
            self._observer.note(CacheBehind(self.kind, error.have, error.got))
            raise
        finally:
            self._publish(changes)
        return len(changes)

    def _keep(self, obj: Obj) -> Obj:
        """The cached object, if it is the same: it is not kept in memory twice while a list is read."""
        cached = self.cache.get(key_of(obj))
        return cached if cached is not None and _is_same(cached, obj) else obj

    def _keep_page(self, obj: Obj) -> Obj:
        """As `_keep`, for objects from pages: they are decoded, but share no parts yet."""
        chosen = self._keep(obj)
        if chosen is obj and self._sharing is not None:
            self._sharing.share(obj)
        return chosen

    # What to do next.

    def _note_failure(self, error: Exception) -> str:
        if isinstance(error, ApiError) and not self._cause:
            if error.code == EXPIRED:
                self._cause = "expired"
            elif 400 <= error.code < 500 and error.code not in SAY_IT_AGAIN:
                self._cause = "refused"
        return "broken" if isinstance(error, MalformedEvent) else "failed"

    def _pause_after_end(self) -> float:
        """A watch that delivered something, or was open for the `steady` time, is opened again at once, or
        after a short pause if it lasted less than MOMENT_S. One that delivered nothing has failed."""
        lived_s = self._lived_s()
        if self._ended == "ended" and (lived_s >= self._pace.steady or self.cache.safe > self._watching_from):
            self._failures = self._expirations = 0
            return 0.0 if lived_s >= MOMENT_S else self._pace.pause(1, self._rng)
        return self._pause_after_failure()

    def _pause_after_error(self, error: Exception) -> float:
        """A server that says 410 is there: the pause does not count the failures of reaching it before."""
        if not (isinstance(error, ApiError) and error.code == EXPIRED):
            return self._pause_after_failure()
        self._forget_failures_if_steady()
        self._expirations += 1
        self._failures = self._expirations
        return self._pace.pause(self._failures, self._rng)

    def _pause_after_failure(self) -> float:
        self._forget_failures_if_steady()
        self._failures += 1
        return self._pace.pause(self._failures, self._rng)

    def _forget_failures_if_steady(self) -> None:
        if self._lived_s() >= self._pace.steady:
            self._failures = self._expirations = 0

    def _server_pause(self, error: Exception) -> float:
        """The server's Retry-After, within our own bounds."""
        if not isinstance(error, ApiError):
            return 0.0
        retry_after_s = error.details.get("retryAfterSeconds")
        return (
            min(self._pace.pause_max, float(retry_after_s)) if isinstance(retry_after_s, int | float) else 0.0
        )

    def _lived_s(self) -> float:
        return 0.0 if self._watching_s is None else loop_now_s() - self._watching_s


def _before_error(events: list[Event]) -> tuple[list[Event], Event | None]:
    """The events up to the first ERROR, and that one."""
    for at, event in enumerate(events):
        if event.type == ERROR:
            return events[:at], event
    return events, None


def _is_same(first: Obj, second: Obj) -> bool:
    revision = metadata(first).get("resourceVersion")
    return uid_of(first) == uid_of(second) and revision == metadata(second).get("resourceVersion")


def _error_text(error: Exception) -> str:
    if isinstance(error, ApiError):
        return f"{error.code} {error.message}"
    return f"{type(error).__name__}: {error}"
