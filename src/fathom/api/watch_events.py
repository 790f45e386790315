"""One event of a resource as watchers read it, and a watcher: a cursor in the resource's log."""

from __future__ import annotations

import asyncio

from fathom.model.body import Body
from fathom.model.objects import Obj, lookup
from fathom.store.protocol import Change, Entry

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

BY_NODE = "spec.nodeName="  # Cannot be the name of a namespace.


def node_trigger(node: str) -> str:
    return f"{BY_NODE}{node}"


class WatchEvent:
    """One event of a resource, as watchers read it."""

    __slots__ = (
        "_frame",
        "_obj",
        "_previous_obj",
        "body",
        "end_bytes",
        "held_bytes",
        "key",
        "previous",
        "revision",
        "type",
    )

    def __init__(self, change: Change, previous: Entry | None) -> None:
        last = change.entry or previous or change.previous
        assert last is not None, f"deletion of {change.key} with nothing known before it"
        self.key = change.key
        self.revision = change.revision
        self.body: Body = last.body  # For a deletion: the last state.
        self.previous: Body | None = previous.body if previous else None
        if change.entry is None:
            self.type = DELETED
        else:
            self.type = MODIFIED if change.entry.created != change.revision else ADDED
        self.held_bytes = 0  # What the event counts for in the log's memory,
        self.end_bytes = 0  # and its end among all events ever logged, in bytes on the wire.
        self._frame: bytes | None = None
        self._obj: Obj | None = None
        self._previous_obj: Obj | None = None

    @property
    def obj(self) -> Obj:
        if self._obj is None:
            self._obj = self.body.obj_at(self.revision)
        return self._obj

    @property
    def previous_obj(self) -> Obj | None:
        if self._previous_obj is None and self.previous is not None:
            self._previous_obj = self.previous.obj
        return self._previous_obj

    @property
    def frame(self) -> bytes:
        """The event on the wire, encoded once for all watchers."""
        if self._frame is None:
            self._frame = frame(self.type, self.body.encoded_at(self.revision))
        return self._frame

    @property
    def is_changed(self) -> bool:
        """Whether a reader of the shared object has modified it."""
        return self._obj is not None and self._obj != self.body.obj_at(self.revision)

    def forget_objects(self, *, keep_body: bool) -> None:
        self._obj = self._previous_obj = None
        if not keep_body:
            self.body.forget_obj()


def frame(event: str, encoded: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event.encode(), encoded)


def node_of(obj: Obj | None) -> str:
    return str(lookup(obj, "spec", "nodeName") or "")


class Watcher:
    """A cursor in a resource's log. `wake` is called when an event may concern the watcher, or when its timer
    is due; so no event that was logged while it slept concerned it, and those need not be read again."""

    __slots__ = ("_waiter", "cursor", "trigger")

    def __init__(self, cursor: int, trigger: str) -> None:
        self.cursor = cursor  # The next position in the log to read.
        self.trigger = trigger
        self._waiter: asyncio.Future[None] | None = None  # Done unless a task waits.

    def wake(self, position: int = -1) -> None:
        """`position` is that of the first event that may concern the watcher."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            self.cursor = max(self.cursor, position)
            waiter.set_result(None)

    def woken(self) -> asyncio.Future[None]:
        """Done at the next `wake`, for one task that awaits it. Not a coroutine: that would cost every
        wake-up a frame."""
        # Not the loop's own future class: nothing else holds this future, so its hash never matters.
        waiter = self._waiter = asyncio.Future(loop=asyncio.get_running_loop())
        return waiter
