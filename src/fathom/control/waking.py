"""Maps changes of watched objects to keys to reconcile. A change only says which key to look at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial

from fathom.cache.caches import Caches
from fathom.cache.snapshot import SnapshotScope
from fathom.control.progress import is_only_progress
from fathom.control.queue import WorkQueue
from fathom.control.watches import Primary, Watch, WatchedKind
from fathom.model.cause import ADDED, CHANGED, DELETED, WakeCause
from fathom.model.objects import Key, Obj, key_of, metadata

# Looking at every object again, at the start and now and then, must not hold up changed ones.
BACKGROUND = -1


class Waker:
    """Lives as long as the caches; has a `queue` only while the process leads. On standby nothing is queued:
    a new leader looks at everything."""

    def __init__(
        self,
        watches: Sequence[Watch],
        primary: WatchedKind,
        caches: Caches,
        scope: SnapshotScope | None = None,
    ) -> None:
        self._watches = watches
        self._primary = primary
        self._view = partial(caches.snapshot, scope)
        self.queue: WorkQueue[Key] | None = None
        self._rest: deque[Key] = deque()  # Keys of a full look that did not fit into the queue yet.
        self._cause = WakeCause("start")
        for watch in watches:
            caches.on_change(watch.kind.name, partial(self._changed, watch))

    def look_at_all(self, cause: WakeCause) -> None:
        """Queues every primary, and every owner that a child names, existing or not: so the leftovers of a
        deleted owner are found. As many at a time as the queue has room for; `go_on` adds the rest."""
        view = self._view()
        keys = (
            key
            for watch in self._watches
            for obj in view.list(watch.kind.name)
            for key in self._keys(watch, obj)
        )
        self._cause, self._rest = cause, deque(dict.fromkeys(keys))
        self.go_on()

    def go_on(self) -> bool:
        """Adds more keys of a full look; whether some still do not fit."""
        while self._rest and self.queue is not None and self.queue.room > 0:
            self.queue.add(self._rest.popleft(), self._cause, priority=BACKGROUND)
        return bool(self._rest)

    def _changed(self, watch: Watch, before: Obj | None, after: Obj | None) -> None:
        if self.queue is None:
            return
        if before is after and after is not None:
            self._add(self._keys(watch, after), WakeCause("resync"), BACKGROUND)
            return
        if (
            isinstance(watch, Primary)
            and before is not None
            and after is not None
            and is_only_progress(before, after)
        ):
            return
        # Keys before and after: a child that changed its owner concerns the old owner too.
        keys = [key for obj in (before, after) if obj is not None for key in self._keys(watch, obj)]
        if keys:  # Most changes, heartbeats for example, concern nobody.
            self._add(dict.fromkeys(keys), _event(watch, before, after), 0)

    def _keys(self, watch: Watch, obj: Obj) -> Iterable[Key]:
        return watch.keys(obj, self._view, self._primary)

    def _add(self, keys: Iterable[Key], cause: WakeCause, priority: int) -> None:
        if self.queue is not None:
            for key in keys:
                self.queue.add(key, cause, priority=priority)


def _event(watch: Watch, before: Obj | None, after: Obj | None) -> WakeCause:
    obj = after if after is not None else before
    assert obj is not None
    change = ADDED if before is None else DELETED if after is None else CHANGED
    revision = int(metadata(obj).get("resourceVersion") or 0)
    resource, gone = watch.kind.resource.name, after is None
    return WakeCause("event", "", resource, *key_of(obj), revision, event=change, gone=gone)
