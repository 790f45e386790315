"""WATCH: every later change, in order and once.

    resourceVersion  ''   all objects as they are now, then changes
                     '0'  all objects as the cache has them, then changes
                     N    changes after N: from the cache's log, or first from the store's history
    sendInitialEvents     all objects, a bookmark that says "that was all", then changes (WatchList)

Events are repeated in one case only: a commit may change several objects (a batch of bindings does). A client
that disconnects between two events of a commit knows only its revision, and resumes from there: it gets all
events of that commit again.

A watch from a compacted revision gets one ERROR event with a 410, as kube-apiserver answers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import chain
from typing import Any

from fathom.api import response_forms
from fathom.api.core import Call, Core
from fathom.api.request import Request, StreamResponse
from fathom.api.resource_cache import FellBehind, ResourceCache
from fathom.api.verbs.selection import Selection, choice_of
from fathom.api.verbs.versions import parse_revision
from fathom.api.watch_events import ADDED, DELETED, MODIFIED, WatchEvent, frame
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, Cause, bad_request, expired, invalid
from fathom.model.objects import Obj
from fathom.model.well_known import BOOKMARK_ANNOTATION, WATCH_AGE_ANNOTATION
from fathom.store.protocol import Batch, Change, Compacted, Entry, FutureRevision, StoreUnavailable

BOOKMARK, ERROR = "BOOKMARK", "ERROR"
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}

# The most that one wake-up sends: small enough that a slow client holds little memory.
CHUNK_EVENTS_MAX = 500
CHUNK_BYTES_MAX = 1 << 20

# fathom's own caches request bookmarks at this interval, in seconds; other servers ignore the header.
BOOKMARK_HEADER = "fathom-bookmark-seconds"
BOOKMARK_S_MIN = 0.1
BOOKMARK_PHASES = 8  # Few wake-ups for many watches, and no burst of all of them at once.


async def watch(core: Core, call: Call) -> StreamResponse:
    request = call.request
    choice = choice_of(core, call)
    initial = _initial_events(request)
    version = request.param("resourceVersion")
    revision = parse_revision(version) if version else 0
    if version and revision:
        await core.wait_for(revision)
    elif not version:
        await core.catch_up()
    stream = WatchStream(core, call, choice)
    if initial or (revision == 0 and initial is None):
        stream.open_with_objects(say_end=bool(initial))
    else:
        stream.open_after(revision or core.cache.reached)
    return StreamResponse(source=stream)


def _initial_events(request: Request) -> bool | None:
    if not request.param("sendInitialEvents"):
        if request.param("resourceVersionMatch"):
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise _watch_options("resourceVersionMatch", why)
        return None
    initial = request.flag("sendInitialEvents")
    if request.param("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _watch_options("resourceVersionMatch", why)
    return initial


def _watch_options(field: str, why: str) -> ApiError:
    cause = Cause(field, "FieldValueForbidden", f"Forbidden: {why}")
    return invalid(group="meta.k8s.io", kind="ListOptions", name="", causes=[cause])


class WatchStream:
    """One watch. Catches up first where needed, then reads the cache's log from its cursor."""

    def __init__(self, core: Core, call: Call, choice: Selection) -> None:
        self._core = core
        self._clock = core.outside.clock
        self._call = call
        self._choice = choice
        self._cache: ResourceCache = core.cache.of(call.kind.stored_as or call.kind.resource)
        self._ready: Iterator[bytes] = iter(())  # Chunks to send before reading the log further, made lazily.
        self._history: AsyncIterator[Batch] | None = None  # The store's history, while the watch catches up.
        self._resumed = 0  # The revision at which history was opened; 0 after its first batch.
        self._sent = 0  # Every matching change up to this revision has been sent.
        self._watcher = self._cache.watch(self._cache.end, choice.trigger)
        self._plain = call.form.shape == response_forms.PLAIN and not call.kind.is_converted
        self._bookmarks = call.request.flag("allowWatchBookmarks")
        self._bookmark_s = _bookmark_interval(core, call)
        # Who requested an interval is told that it is kept: a watch that dies at once is noticed by that.
        # And how new a bookmark was when it was sent: a reader that was paused must not take it for news.
        self._tells_age = BOOKMARK_HEADER in call.request.headers
        self._opened_at = self._now()
        self._end_at = self._opened_at + _timeout(core, call.request)
        self._bookmark_at = self._next_bookmark(self._opened_at)
        self._due = 0.0  # When the timer for the next bookmark or the end is due; 0 if none is set.
        self._over = False

    def open_with_objects(self, *, say_end: bool) -> None:
        # The entries are taken now, so that they and the cursor are of one revision; they are encoded later.
        entries = [self._cache.entries[key] for key in self._choice.keys(self._cache)]
        self._ready = _chunks(self._added(entry) for entry in entries if self._wants(entry))
        self._watcher.cursor = self._cache.end
        self._sent = self._core.cache.reached
        if say_end and self._bookmarks:
            self._ready = chain(self._ready, (self._bookmark(is_end=True),))

    def open_after(self, revision: int) -> None:
        self._sent = revision
        if revision > self._cache.floor:  # At the floor, the log may hold only a part of the commit.
            self._watcher.cursor = self._cache.position_from(revision)
        else:
            self._resumed = revision
            self._history = self._core.store.watch(self._cache.prefix, after=revision - 1)

    async def next(self) -> Any:
        while not self._over:
            ready = next(self._ready, None)
            if ready is not None:
                return ready
            if self._history is not None:
                await self._catch_up(self._history)
                continue
            chunk = self._read()
            if chunk:
                return chunk
            if not self._over:
                self._set_alarm()
                await self._watcher.woken()
        return None

    def close(self) -> None:
        self._over = True
        self._cache.unwatch(self._watcher)
        self._watcher.wake()
        if self._due:
            self._core.shared_timers.leave(self, at_s=self._due)
            self._due = 0.0

    def _read(self) -> Any:
        """The log's next events for this watch; a bookmark when one is due; b'' when there is nothing to
        send."""
        start, end = self._watcher.cursor, self._cache.end
        if start < end:
            try:
                end = self._cache.chunk_end(start, count_max=CHUNK_EVENTS_MAX, bytes_max=CHUNK_BYTES_MAX)
                chunk = self._frames(start, end)
            except FellBehind:
                self._core.counts.watches_dropped += 1
                self.close()  # A clean end: the client resumes from its last revision.
                return b""
            self._watcher.cursor = end
            return chunk or self._read()
        self._sent = self._core.cache.reached
        now_s = self._now()
        if self._core.stopping or now_s >= self._end_at:
            self.close()
            return self._bookmark() if self._bookmarks else b""
        if self._bookmarks and now_s >= self._bookmark_at:
            self._bookmark_at = self._next_bookmark(now_s)
            return self._bookmark()
        return b""

    def _frames(self, start: int, end: int) -> Any:
        shared = self._plain and self._call.form.shared
        if self._plain and self._choice.matches is None:
            joined = self._cache.pairs if shared else self._cache.joined
            return joined(start, end, self._choice.namespace)
        events = self._cache.read(start, end - start)
        if shared:
            return [seen for logged in events if (seen := self._seen(logged)) is not None]
        return b"".join([self._event(logged) for logged in events])

    def _event(self, logged: WatchEvent) -> bytes:
        """One change on the wire; b'' if it does not concern this watch."""
        if self._plain and self._choice.matches is None:
            return logged.frame if self._is_inside(logged) else b""
        seen = self._seen(logged)
        if seen is None:
            return b""
        event, obj = seen
        if not self._plain or obj is not logged.obj:
            return self._shaped(event, obj)
        if event == logged.type:
            return logged.frame
        return frame(event, logged.body.encoded_at(logged.revision))  # It entered or left the selection.

    def _is_inside(self, logged: WatchEvent) -> bool:
        namespace = self._choice.namespace
        return not namespace or logged.key.startswith(f"{self._cache.prefix}{namespace}/")

    def _seen(self, logged: WatchEvent) -> tuple[str, Obj] | None:
        """One change as this watch sees it: an object may enter or leave its selection."""
        if not self._is_inside(logged):
            return None
        matches = self._choice.matches
        if matches is None:
            return logged.type, logged.obj
        before = logged.previous_obj
        was = before is not None and matches(before)
        now = logged.type != DELETED and matches(logged.obj)
        if logged.type == DELETED:
            # The state before is unknown: judge by the last state.
            was = was or (before is None and matches(logged.obj))
        if now:
            return MODIFIED if was else ADDED, logged.obj
        if was:
            last = logged.obj if logged.type == DELETED or before is None else _at(before, logged.revision)
            return DELETED, last
        return None

    def _shaped(self, event: str, obj: Obj) -> bytes:
        obj = response_forms.as_kind(self._call.kind, obj)
        form = self._call.form
        if form.shape != response_forms.PLAIN:
            now_ns = self._core.outside.clock.now_ns()
            obj = response_forms.shaped(self._call.kind, [obj], form, now_ns=now_ns)
        return frame(event, encode_json(obj))

    def _added(self, entry: Entry) -> bytes:
        if self._plain:
            return frame(ADDED, entry.body.encoded_at(entry.revision))
        return self._shaped(ADDED, entry.body.obj_at(entry.revision))

    def _wants(self, entry: Entry) -> bool:
        return self._choice.matches is None or self._choice.matches(entry.body.obj)

    async def _catch_up(self, history: AsyncIterator[Batch]) -> None:
        """Send one batch of the store's history; continue with the log once history has reached it."""
        try:
            batch = await self._next_batch(history)
        except Compacted as error:
            if self._resumed:  # The commit itself may be compacted, the later ones not.
                self._resumed = 0
                self._go_on_after_sent()
                return
            self._ready = iter((_too_old(self._sent, error.floor),))
            self._history = None
            self._end_at = 0.0
            return
        except (StoreUnavailable, FutureRevision, TimeoutError):
            self.close()  # A clean end: the client resumes from its last revision.
            return
        changes = _without_lone(batch.changes, self._resumed)
        self._resumed = 0
        if any(change.entry is None and change.previous is None for change in changes):
            # Compaction removed the last states of objects deleted while we read: we cannot say what was
            # deleted.
            self._ready = iter((_too_old(self._sent, batch.revision),))
            self._history = None
            self._end_at = 0.0
            return
        events = (WatchEvent(change, change.previous) for change in changes)
        self._ready = _chunks(self._event(logged) for logged in events)
        self._sent = max(self._sent, batch.revision)
        if self._sent < self._cache.floor:
            return
        # 1. The store has sent us revision N. 2. The cache has applied only N-1. 3. The log would give us N a
        # second time. So wait until the cache has reached what was sent.
        await self._core.cache.at_least(self._sent)
        self._go_on_after_sent()

    def _go_on_after_sent(self) -> None:
        """With the log, which has timers and an end; with the store's history if the log begins later."""
        self._history = None
        self._watcher.cursor = self._cache.position_after(self._sent)
        if self._sent < self._cache.floor:
            self._history = self._core.store.watch(self._cache.prefix, after=self._sent)

    async def _next_batch(self, history: AsyncIterator[Batch]) -> Batch:
        """The next batch of the store's history. The revision of a shared store may have risen without a
        change to what we watch: without a progress request it would send nothing, and we would never get to
        the log and its timers."""
        async with asyncio.timeout(max(0.0, self._end_at - self._now())):
            if self._core.shared_store:
                await self._core.store.request_progress()
            return await anext(history)

    def _set_alarm(self) -> None:
        if not self._due:
            self._due = due = min(self._end_at, self._bookmark_at) if self._bookmarks else self._end_at
            self._core.shared_timers.wake(self, at_s=due, now_s=self._now())

    def wake_up(self) -> None:
        self._due = 0.0
        self._watcher.wake(self._cache.end)

    def _next_bookmark(self, now_s: float) -> float:
        """On a grid that all watches share: one timer wakes many of them, but not all at once."""
        grid_s = self._bookmark_s / BOOKMARK_PHASES
        return math.ceil((now_s + self._bookmark_s) / grid_s) * grid_s

    def _bookmark(self, *, is_end: bool = False) -> Any:
        meta: Obj = {"resourceVersion": str(self._sent), "creationTimestamp": None}
        if is_end or self._tells_age:
            meta["annotations"] = self._bookmark_annotations(is_end=is_end)
        kind = self._call.kind
        obj: Obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        form = self._call.form
        if form.shape == response_forms.TABLE:
            now_ns = self._core.outside.clock.now_ns()
            obj = response_forms.shaped(kind, [], form, now_ns=now_ns, list_meta=meta)
        elif form.shape == response_forms.METADATA:
            obj |= {"kind": form.shape, "apiVersion": f"meta.k8s.io/{form.version}"}
        if form.shared:
            return [(BOOKMARK, obj)]
        return frame(BOOKMARK, encode_json(obj))

    def _bookmark_annotations(self, *, is_end: bool) -> dict[str, str]:
        if not self._tells_age:
            return INITIAL_EVENTS_END if is_end else {}
        age = {WATCH_AGE_ANNOTATION: f"{self._core.as_of_s() - self._opened_at:.3f}"}
        if not is_end:
            return age
        return {**INITIAL_EVENTS_END, BOOKMARK_ANNOTATION: f"{self._bookmark_s:g}", **age}

    def _now(self) -> float:
        return self._clock.monotonic_ns() / 1e9


def _without_lone(changes: Sequence[Change], resumed: int) -> Sequence[Change]:
    """Without the change of the commit resumed from, if that commit changed one object: a client that knows
    the revision has seen it."""
    repeated = sum(change.revision == resumed for change in changes)
    return changes[1:] if repeated == 1 else changes


def _at(obj: Obj, revision: int) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def _too_old(revision: int, floor: int) -> bytes:
    error = expired(f"too old resource version: {revision} ({floor})")
    return frame(ERROR, encode_json(error.status()))


def _chunks(frames: Iterator[bytes]) -> Iterator[bytes]:
    """Only one chunk is held while it is sent, which may take as long as the client likes."""
    frames = iter(frames)
    while pieces := _some(frames):
        chunk = b"".join(pieces)
        pieces.clear()
        yield chunk


def _some(frames: Iterator[bytes]) -> list[bytes]:
    """As many frames as fit into one chunk; none at the end."""
    pieces: list[bytes] = []
    size = 0
    for piece in frames:
        if piece:
            pieces.append(piece)
            size += len(piece)
        if len(pieces) == CHUNK_EVENTS_MAX or size >= CHUNK_BYTES_MAX:
            break
    return pieces


def _timeout(core: Core, request: Request) -> float:
    text = request.param("timeoutSeconds")
    if not text:
        return core.limits.watch_s_min * (1.0 + core.outside.rng.random())
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise bad_request(f'timeoutSeconds: Invalid value: "{text}": must be a whole number of seconds')
    return float(text) or core.limits.watch_s_min * (1.0 + core.outside.rng.random())


def _bookmark_interval(core: Core, call: Call) -> float:
    text = call.request.headers.get(BOOKMARK_HEADER, "")
    if not text:
        return core.limits.bookmark_s
    try:
        return max(BOOKMARK_S_MIN, float(text))
    except ValueError:
        raise bad_request(f'{BOOKMARK_HEADER}: Invalid value: "{text}": must be seconds') from None
