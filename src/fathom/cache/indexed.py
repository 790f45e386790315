"""The cache of one kind: events, lists and own writes move it forward, nothing moves it back.

Three revisions describe its state:

    safe       everything up to here has been applied; a watch may resume after it
    seen       the newest event that has been applied
    revision   the revision of a snapshot, and what `at_least` waits for

An event at revision N means that all events before N have been sent, not all of N: one commit may change many
objects, and a connection may break between two of its events. So an event moves `safe` to N - 1, and only a
bookmark, a list or a later event moves it past N. With servers that change one object a revision
(kube-apiserver), `revision` is N at once; `safe` is the same everywhere, and costs one repeated event after a
disconnect.

The answer to an own write may be put in before its event comes (`apply_write`). Why that never brings back a
deleted object: 1. We update a pod, at revision 7. 2. Another client deletes it, at 8. 3. The watch delivers
that. 4. The answer to our update comes late, with the pod as of 7. `seen` is 8 by then, and an answer that is
not newer than `seen` is ignored: the watch has delivered everything up to there. No record of deleted objects
is needed for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import msgspec

from fathom.cache.contents import Contents, Draft
from fathom.cache.indexes import Index
from fathom.client.events import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    Event,
    MalformedEvent,
    revision_of,
    watch_age_s,
)
from fathom.model.objects import Key, Obj, key_of, metadata, uid_of

# The change of one object: (before, after). None before: new. None after: deleted. Each `before` is the
# `after` of the object's last change, so that a handler that sums can subtract exactly what it added.
Change = tuple[Obj | None, Obj | None]

PUTS = frozenset({ADDED, MODIFIED})

# Own writes whose event has not come. Beyond it answers are not put in: the watch delivers them anyway.
EARLY_MAX = 1000


class AppliedChange(msgspec.Struct):
    """The effects of a batch so far. An argument, not a return value: when the batch fails in the middle, the
    changes already made must still be published."""

    changes: list[Change] = []
    again: int = 0  # Repeated events.
    overtaken: int = 0  # Events older than an own write in the cache.
    fresh: bool = False  # The server sent something that is not older than the cache.
    as_of_s: float = float("-inf")  # The cache has all that the server had at this time.
    echoes_s: list[float] = []  # How long after an own write's answer its event came.


class HeldObject(msgspec.Struct, frozen=True):
    """One kind's part of a snapshot."""

    contents: Contents
    revision: int  # Everything up to here is in it.
    heard_s: float  # When the cache was last known to be as new as the server.
    synced: bool
    # The newest event or own write in it. Beyond `revision`, others of the same commit may be missing.
    applied: int = 0


class WentBack(Exception):
    """A server's list is older than what the cache has seen."""

    def __init__(self, *, have: int, got: int) -> None:
        super().__init__(f"the server's list is at revision {got}, but the cache has seen {have}")
        self.have = have
        self.got = got


class IndexedCache:
    def __init__(
        self,
        indexes: Mapping[str, Index],
        *,
        shared_revisions: bool = True,
        on_move: Callable[[], None] | None = None,
    ) -> None:
        """`on_move` is called when the last result of `held` is outdated."""
        self._on_move = on_move
        self._shared = shared_revisions  # The server may change several objects at one revision.
        self._draft = Draft(indexes)
        self.safe = 0
        self.seen = 0  # safe <= seen, and neither ever decreases.
        self.heard_s = float("-inf")
        # The server's bookmarks say when they were sent. What else it sends may have been on its way for
        # long, and then shows nothing about how new the cache is. True until a bookmark shows otherwise:
        # 1. A list is read in pages, which no bookmark ends. 2. The first events of its watch come late.
        self.dated = True
        self.synced = False
        self._early: dict[Key, tuple[int, float]] = {}  # Own writes without their event: revision, when.
        self._written = 0  # The newest own write that was put in.
        self._held: HeldObject | None = None
        self._next_move: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._draft)

    @property
    def revision(self) -> int:
        return self.safe if self._shared else self.seen

    def get(self, key: Key) -> Obj | None:
        return self._draft.get(key)

    def held(self) -> HeldObject:
        if self._held is None:
            self._held = HeldObject(
                self._draft.contents(),
                self.revision,
                self.heard_s,
                self.synced,
                max(self.seen, self._written),
            )
        return self._held

    # Events, lists, own writes: what moves a cache forward.

    def apply(
        self,
        events: Iterable[Event],
        applied: AppliedChange,
        *,
        now_s: float,
        opened_s: float = float("-inf"),
    ) -> None:
        """Events of a watch that was requested at `opened_s`, in order. Raises `MalformedEvent`; events
        before the malformed one count."""
        try:
            for event in events:
                self._apply_event(event, applied, now_s, opened_s)
        finally:
            if self._early:
                self._drop_unconfirmed(applied)
            self.heard_s = max(self.heard_s, applied.as_of_s)
            self._moved()

    def replace(self, objs: Iterable[Obj], revision: int, changes: list[Change], *, asked_s: float) -> None:
        """All objects at a revision, from a list requested at `asked_s`. Objects missing from it were
        deleted: each gives a change with its last state. Raises `WentBack`, and changes nothing, when the
        list is older than the cache."""
        if revision < self.seen:
            raise WentBack(have=self.seen, got=revision)
        try:
            listed = self._put_listed(objs, changes)
            self._remove_missing(listed, revision, changes)
            self.safe = self.seen = revision
            self._early = {key: early for key, early in self._early.items() if early[0] > revision}
            self.heard_s = max(self.heard_s, asked_s)
            self.synced = True
        finally:
            self._moved()

    def apply_write(self, obj: Obj, changes: list[Change], *, now_s: float) -> None:
        """The answer to an own write. The module's docstring says why a late one does no harm."""
        revision = _revision_or_none(obj)
        key = key_of(obj)
        if not self.synced or revision is None or revision <= self.seen or not key.name:
            return
        old = self._draft.get(key)
        if revision <= _revision_at(old) or len(self._early) >= EARLY_MAX:
            return
        self._put(key, old, obj, changes)
        self._early[key] = (revision, now_s)
        self._written = max(self._written, revision)
        self._moved()

    def heard(self, at_s: float) -> None:
        """The server had nothing newer than our revision at this time."""
        if at_s > self.heard_s:
            self.heard_s = at_s
            self._moved()

    def next_move(self) -> asyncio.Future[None]:
        """Done as soon as anything changes: contents, revision, or `heard_s`. Several tasks may wait for it:
        use `asyncio.wait`, which does not cancel it for the other tasks."""
        if self._next_move is None:
            self._next_move = asyncio.get_running_loop().create_future()
        return self._next_move

    # Events.

    def _apply_event(self, event: Event, applied: AppliedChange, now_s: float, opened_s: float) -> None:
        revision = revision_of(event.obj)
        if event.type == BOOKMARK:
            self._bookmarked(event, revision, applied, now_s, opened_s)
        elif revision <= self.safe:
            applied.again += 1
        else:
            self.safe = max(self.safe, revision - 1)
            self._changed(event, revision, applied, now_s)
            self.seen = max(self.seen, revision)
            applied.fresh = True
            if not self.dated:
                applied.as_of_s = now_s

    def _bookmarked(
        self, event: Event, revision: int, applied: AppliedChange, now_s: float, opened_s: float
    ) -> None:
        # An older bookmark does not count: a stale server must not make the cache look fresh.
        if revision < self.seen:
            return
        self.safe = self.seen = revision
        applied.fresh = True
        age_s = watch_age_s(event)
        self.dated = age_s is not None
        # The server opened the watch after it was requested: the bookmark is at least as new as this.
        applied.as_of_s = now_s if age_s is None else min(now_s, opened_s + age_s)

    def _changed(self, event: Event, revision: int, applied: AppliedChange, now_s: float) -> None:
        key = _key_of(event.obj)
        old = self._draft.get(key)
        have = _revision_at(old)
        early = self._early.get(key) if self._early else None
        if early is not None and revision >= early[0]:
            del self._early[key]
            if revision == early[0]:
                applied.echoes_s.append(now_s - early[1])
        if have > revision:
            applied.overtaken += 1
        elif event.type == DELETED:
            if old is None:
                applied.again += 1
            else:
                self._apply_deletion(key, old, event.obj, applied.changes)
        elif event.type not in PUTS:
            raise MalformedEvent(f"unknown event type {event.type!r}")
        elif have < revision:
            self._put(key, old, event.obj, applied.changes)
        elif early is None:
            applied.again += 1

    def _apply_deletion(self, key: Key, old: Obj, last: Obj, changes: list[Change]) -> None:
        """A deletion carries the object's last state, which may be new to us: the update that removes the
        last finalizer deletes the object in the same commit."""
        self._draft.remove(key, old)
        if uid_of(old) == uid_of(last) and not _differ_in_revision_only(old, last):
            changes.append((old, last))
            old = last
        changes.append((old, None))

    def _drop_unconfirmed(self, applied: AppliedChange) -> None:
        """An own write whose revision the watch has passed without its event is outside our selectors."""
        for key, (revision, _) in list(self._early.items()):
            if revision <= self.safe:
                del self._early[key]
                old = self._draft.get(key)
                if old is not None and _revision_at(old) == revision:
                    self._draft.remove(key, old)
                    applied.changes.append((old, None))

    # Lists.

    def _put_listed(self, objs: Iterable[Obj], changes: list[Change]) -> dict[Key, None]:
        listed: dict[Key, None] = {}
        for obj in objs:
            key = _key_of(obj)
            listed[key] = None
            old = self._draft.get(key)
            if _revision_at(old) < revision_of(obj):  # False for own writes newer than the list.
                self._put(key, old, obj, changes)
        return listed

    def _remove_missing(self, listed: dict[Key, None], revision: int, changes: list[Change]) -> None:
        for key in sorted(key for key in self._draft if key not in listed):
            old = self._draft.get(key)
            if old is not None and _revision_at(old) <= revision:
                self._draft.remove(key, old)
                changes.append((old, None))

    def _put(self, key: Key, old: Obj | None, obj: Obj, changes: list[Change]) -> None:
        self._draft.put(key, old, obj)
        if old is not None and uid_of(old) != uid_of(obj):
            # Two objects had the name one after the other, and no event for the first's deletion came.
            changes.append((old, None))
            old = None
        changes.append((old, obj))

    def _moved(self) -> None:
        self._held = None
        if self._on_move is not None:
            self._on_move()
        move, self._next_move = self._next_move, None
        if move is not None and not move.done():
            move.set_result(None)


def _key_of(obj: Obj) -> Key:
    key = key_of(obj)
    if not key.name:
        raise MalformedEvent(f"object without a name: {str(obj)[:120]}")
    return key


def _revision_at(obj: Obj | None) -> int:
    return 0 if obj is None else revision_of(obj)


def _revision_or_none(obj: Obj) -> int | None:
    """None for answers that are no object: a Status, an object that was not stored (dry run)."""
    try:
        return revision_of(obj)
    except MalformedEvent:
        return None


def _differ_in_revision_only(first: Obj, second: Obj) -> bool:
    revision = metadata(first).get("resourceVersion")
    return first == {**second, "metadata": {**metadata(second), "resourceVersion": revision}}
