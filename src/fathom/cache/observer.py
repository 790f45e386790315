"""Events about caches, for metrics and the journal. No decision depends on them."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

import msgspec


class Listed(msgspec.Struct, frozen=True, tag=True):
    """All objects were read. Rare is healthy: repeated lists mean pressure on the server, or a slow
    reader."""

    kind: str
    cause: str  # start, expired, refused, or why else the watch could not be resumed.
    revision: int
    objects: int
    changed: int  # Changes that the list made: those that the watch had missed.
    took_s: float


class Resumed(msgspec.Struct, frozen=True, tag=True):
    """A watch was opened after the last revision of the previous one."""

    kind: str
    why: str  # How the previous watch ended: ended, silent, broken, failed.
    revision: int


class Dropped(msgspec.Struct, frozen=True, tag=True):
    """Events that changed nothing."""

    kind: str
    why: str  # again: a repeated event. overtaken: an own write in the cache is newer.
    events: int


class Echoed(msgspec.Struct, frozen=True, tag=True):
    """The event of an own write came: the time from the write's answer to its event."""

    kind: str
    lag_s: float


class CacheBehind(msgspec.Struct, frozen=True, tag=True):
    """A server's list was older than what the cache has seen, and was ignored."""

    kind: str
    have: int
    got: int


class Silent(msgspec.Struct, frozen=True, tag=True):
    """No event came for longer than bookmarks would take: the watch was closed."""

    kind: str
    silent_s: float


class CacheFailed(msgspec.Struct, frozen=True, tag=True):
    """A list or a watch was refused or broke; it is tried again after a pause."""

    kind: str
    error: str
    pause_s: float


class CacheProbed(msgspec.Struct, frozen=True, tag=True):
    """The server was asked for its revision."""

    kind: str
    behind: int  # How many revisions the cache was behind its answer.
    met: bool  # The cache reached that revision.
    took_s: float


class HandlerFailed(msgspec.Struct, frozen=True, tag=True):
    """A callback raised. Other callbacks and later changes are not affected."""

    kind: str
    error: str


CacheEvent = (
    Listed | Resumed | Dropped | Echoed | CacheBehind | Silent | CacheFailed | CacheProbed | HandlerFailed
)


class CacheObserver(Protocol):
    def note(self, event: CacheEvent) -> None: ...


class NoObserver:
    def note(self, event: CacheEvent) -> None: ...


class CacheCounts:
    """Totals, for metrics and for tests."""

    def __init__(self) -> None:
        self.lists: Counter[tuple[str, str]] = Counter()  # (kind, cause)
        self.resumes: Counter[tuple[str, str]] = Counter()  # (kind, why)
        self.dropped: Counter[tuple[str, str]] = Counter()  # (kind, why)
        self.failures: Counter[str] = Counter()
        self.behind: Counter[str] = Counter()
        self.silent: Counter[str] = Counter()  # Watches that were closed because no event came.
        self.handler_failures: Counter[str] = Counter()
        self.lag_s: dict[str, float] = {}  # The last one.

    def note(self, event: CacheEvent) -> None:
        match event:
            case Listed(kind=kind, cause=cause):
                self.lists[kind, cause] += 1
            case Resumed(kind=kind, why=why):
                self.resumes[kind, why] += 1
            case Dropped(kind=kind, why=why, events=events):
                self.dropped[kind, why] += events
            case Echoed(kind=kind, lag_s=lag_s):
                self.lag_s[kind] = lag_s
            case CacheBehind(kind=kind):
                self.behind[kind] += 1
            case CacheFailed(kind=kind):
                self.failures[kind] += 1
            case Silent(kind=kind):
                self.silent[kind] += 1
            case HandlerFailed(kind=kind):
                self.handler_failures[kind] += 1
            case _:
                pass


class SeveralObservers:
    """One observer for several: metrics and journal."""

    def __init__(self, *observers: CacheObserver) -> None:
        self._observers = observers

    def note(self, event: CacheEvent) -> None:
        for observer in self._observers:
            observer.note(event)
