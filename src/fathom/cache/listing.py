"""Lists all objects at one revision: as a WatchList stream where the server supports it, else in pages.

WatchList gives list and watch in one request: the objects as events, a bookmark that ends them with the
list's revision, then changes. Pages are all of one revision, which is the list's, never that of its last
item.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from fathom.cache.scope import CacheScope
from fathom.client.api import PAGE_OBJECTS, Api
from fathom.client.events import (
    BOOKMARK,
    DELETED,
    ERROR,
    Event,
    ends_initial_events,
    error_of,
    promised_bookmark_s,
    revision_of,
    watch_age_s,
)
from fathom.model.errors import ApiError, expired
from fathom.model.objects import Key, Obj, key_of
from fathom.seams.seam import Stream

# A list whose pages expire while it is read is restarted at once this often; then it has failed.
BEGIN_AGAIN_MAX = 3

# Errors of a watch with initial events whose cause is the client or the moment, not a missing WatchList.
NOT_ABOUT_WATCHLIST = frozenset({401, 403, 404, 408, 410, 429})


# Called with each object as it is read; returns the one to keep, which may be an equal one in the cache.
Keep = Callable[[Obj], Obj]


class NoWatchList(Exception):
    """The server does not support WatchList, or not correctly."""


class EndNotSent(Exception):
    """The server sent initial events and fell silent before the bookmark that ends them."""


class InitialEvents:
    """The initial events of a WatchList, while they are read."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self.objs: dict[Key, Obj] = {}
        self.revision = 0  # The list's, once it is complete.
        self.bookmark_s = math.inf  # So often the server promises bookmarks.
        self.dated = False  # Whether the server says when it sent a bookmark.
        self.rest: list[Event] = []  # Events in the same chunk after the end of the list.

    def take(self, events: list[Event]) -> bool:
        """Whether the list is complete."""
        for at, event in enumerate(events):
            if event.type == BOOKMARK:
                if not ends_initial_events(event):
                    # A server that knows the parameter does not send bookmarks before the end.
                    raise NoWatchList("the server sent a bookmark before the end of the initial events")
                self.revision = revision_of(event.obj)
                self.bookmark_s = promised_bookmark_s(event)
                self.dated = watch_age_s(event) is not None
                self.rest = events[at + 1 :]
                return True
            self._take_event(event)
        return False

    def _take_event(self, event: Event) -> None:
        if event.type == ERROR:
            raise error_of(event)
        if event.type == DELETED:
            self.objs.pop(key_of(event.obj), None)
        else:
            self.objs[key_of(event.obj)] = self._keep(event.obj)


class Pages(msgspec.Struct, frozen=True):
    objs: list[Obj]
    revision: int


async def open_watch_list(api: Api, scope: CacheScope, *, watch_s: int) -> Stream:
    """Raises `NoWatchList` where the server does not support it. No revision is given: the newest."""
    try:
        return await api.watch(
            scope.resource,
            scope.namespace,
            **scope.options(),
            allowWatchBookmarks="true",
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            timeoutSeconds=str(watch_s),
        )
    except ApiError as error:
        if 400 <= error.code < 500 and error.code not in NOT_ABOUT_WATCHLIST:
            raise NoWatchList(error.message) from error
        raise


async def open_watch(api: Api, scope: CacheScope, *, after: int, watch_s: int) -> Stream:
    return await api.watch(
        scope.resource,
        scope.namespace,
        **scope.options(),
        allowWatchBookmarks="true",
        resourceVersion=str(after),
        timeoutSeconds=str(watch_s),
    )


async def fetch_pages(api: Api, scope: CacheScope, keep: Keep) -> Pages:
    """The newest state. A list whose pages expire while it is read (410) is restarted."""
    for _ in range(BEGIN_AGAIN_MAX):
        try:
            return await _fetch_once(api, scope, keep)
        except ApiError as error:
            if error.code != 410:
                raise
    return await _fetch_once(api, scope, keep)


async def _fetch_once(api: Api, scope: CacheScope, keep: Keep) -> Pages:
    options = scope.options()
    page = await api.list_page(scope.resource, scope.namespace, limit=PAGE_OBJECTS, **options)
    objs, revision = [keep(obj) for obj in page.items], page.revision
    while page.token:
        page = await api.list_page(
            scope.resource, scope.namespace, token=page.token, limit=PAGE_OBJECTS, **options
        )
        if page.revision != revision:
            # A server that continues at another revision has mixed two states in one list.
            raise expired(f"the list began at revision {revision}, but a later page is at {page.revision}")
        objs += [keep(obj) for obj in page.items]
    return Pages(objs, revision)
