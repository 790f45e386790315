"""Caches never go back, never add deleted objects, skip no change, take no object for another, are as new as
they say; and at rest they equal the store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from fathom.cache.caches import Caches
from fathom.cache.observer import CacheEvent, CacheFailed, CacheProbed, HandlerFailed, Listed, Resumed
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.times import SECOND_NS
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.servers import SimServer
from fathom.sim.world.violation import Violation

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine
    from fathom.sim.world.world import World

BACK = "informer revision never goes back"
DEAD = "no ADDED for a dead UID"
CHAIN = "each cache change starts from the state of the last one"
ONE = "each cache change is of one object"
AS_NEW = "a cache is as new as it says"
DROPPED = "a cache removes only what is deleted"
PROBED = "a cache that was asked for has what the server had"
# A server that has not yet shown that it sends bookmarks often is given a minute and a half.
SILENCE_S = 120.0

# Faults by which a server may learn of its own commit long after it was made.
LATE_COMMITS = frozenset({"stale-server", "partition", "slow-commit"})
# A server that is alone learns of its own commit by the answer of the store, at most so much later. Until
# then nobody was told of the commit, and a read need not have it.
ANSWER_S = 2.5
# What a cache says is rounded, and a commit counts from when it was made.
ROUNDING_S = 1.0

ON_NODE = "spec.nodeName="  # The selector of agents.
NOTICED = "no exception goes unnoticed"


class CachesAreTrue(Checker):
    """A watch that went dead without an error is noticed only by its silence. Until then its reader has
    nothing to do, and the world only seems to be at rest."""

    name = "caches equal the store when settled"
    patience_s = SILENCE_S

    def __init__(self) -> None:
        self.deaths: dict[str, int] = {}  # UID -> the revision that removed it.
        self._newest: dict[str, list[tuple[float, int]]] = {}  # Resource -> when it changed, and to what.
        self.sights: dict[str, CacheInspector] = {}  # By process: of its newest incarnation.

    def commit(self, change: Seen) -> Found:
        if change.old is not None and (change.new is None or uid_of(change.new) != uid_of(change.old)):
            self.deaths[uid_of(change.old)] = change.revision
        self._newest.setdefault(change.resource, []).append((change.at_s, change.revision))
        if change.by in self.sights:
            self.sights[change.by].check_ages()
        return None

    def newest_at(self, resource: str, at_s: float) -> int:
        """The revision of the resource's last change before a moment."""
        changes = self._newest.get(resource, [])
        before = bisect_left(changes, (at_s, 0))
        return changes[before - 1][1] if before else 0

    def newest(self, resource: str) -> int:
        """The revision of the resource's last change."""
        changes = self._newest.get(resource)
        return changes[-1][1] if changes else 0

    def settled(self, world: World) -> Iterable[str | Finding]:
        """Also checks processes without a `CacheInspector`: their caches are read from their state."""
        for name, process in world.engine.processes.items():
            caches = self.sights[name].caches if name in self.sights else _caches_in(process.state)
            if process.alive and caches is not None:
                yield from _differences(world, name, caches)


class CacheInspector:
    """Observes the caches of one incarnation. An error that it finds ends the run."""

    def __init__(self, checker: CachesAreTrue, engine: Engine, process: str) -> None:
        self.caches: Caches | None = None
        self._whole: list[tuple[str, str]] = []  # The kinds that are cached whole, and their resources.
        self._checker = checker
        self._engine = engine
        self._process = process
        self._reached: dict[str, int] = {}  # Kind -> the highest revision that was listed or resumed from.
        self._last_seen: dict[tuple[str, Key], Obj] = {}  # The last state of each object that handlers got.
        checker.sights[process] = self

    def over(self, caches: Caches) -> None:
        self.caches = caches
        for kind in caches.kinds:
            scope = caches.scope(kind)
            if not scope.selects and not scope.namespace:
                self._whole.append((kind, scope.resource.name))
            caches.on_change(kind, partial(self._changed, kind))

    def note(self, event: CacheEvent) -> None:
        match event:
            case Listed(kind=kind, revision=revision) | Resumed(kind=kind, revision=revision):
                before = self._reached.get(kind, 0)
                if revision < before:
                    self._broken(
                        BACK, f"the cache of {kind} was at revision {before} and went on from {revision}"
                    )
                self._reached[kind] = max(before, revision)
            case HandlerFailed(kind=kind, error=error):
                self._broken(NOTICED, f"a handler of {kind} failed: {error}")
            case CacheFailed(kind=kind, error=error) if not error[:1].isdigit() and not _is_expected(error):
                self._broken(NOTICED, f"the reflector of {kind} failed: {error}")
            case CacheProbed(kind=kind, met=True, took_s=took_s):
                self._probed(kind, took_s)
            case _:
                pass

    def _probed(self, kind: str, took_s: float) -> None:
        """A read without a revision sees every write before it, whatever the server's cache has: so does the
        cache that has reached its revision. Not so of a server that is alone, as long as its own commits do
        not come back to it: that fault is of stores that others write to, and it does not ask."""
        assert self.caches is not None
        if self._is_alone_and_had(LATE_COMMITS):
            return
        scope = self.caches.scope(kind)
        slack_s = ANSWER_S if self._is_alone() else 0.0
        had = self._checker.newest_at(scope.resource.name, self._engine.since_s - took_s - slack_s)
        has = self.caches.snapshot().revision(kind)
        if not scope.selects and not scope.namespace and has < had:
            self._broken(PROBED, f"the server had {kind} at revision {had}; the cache says so, and has {has}")

    def check_ages(self) -> None:
        """A cache that says it was as new as the store two seconds ago has every change that was made before.
        A server that is alone does not ask the store: a commit that no answer came to, or not yet, may be in
        it."""
        if self.caches is None:
            return
        newest, revision = self._checker.newest, self.caches.revision
        behind = [(kind, resource) for kind, resource in self._whole if revision(kind) < newest(resource)]
        if behind and not self._is_alone_and_had(LATE_COMMITS):
            self._check_ages_of(behind, self.caches)

    def _check_ages_of(self, kinds: Iterable[tuple[str, str]], caches: Caches) -> None:
        slack_s = ANSWER_S if self._is_alone() else ROUNDING_S
        view = caches.snapshot_at(self._engine.now_ns / SECOND_NS)
        for kind, resource in kinds:
            if not view.synced(kind):
                continue
            age_s, has = view.age(kind), view.revision(kind)
            had = self._checker.newest_at(resource, self._engine.since_s - age_s - slack_s)
            if has < had:
                what = f"the cache of {kind} says that it was current {age_s:.1f} s ago"
                self._broken(AS_NEW, f"{what}, and has revision {has}; {had} was committed before")

    def _is_alone_and_had(self, faults: frozenset[str]) -> bool:
        return any(fault in faults for fault, _ in self._engine.faults.fired) and self._is_alone()

    def _is_alone(self) -> bool:
        processes = self._engine.processes.values()
        return sum([isinstance(process.state, SimServer) for process in processes]) <= 1

    def _changed(self, kind: str, before: Obj | None, after: Obj | None) -> None:
        subject = after if after is not None else before
        assert subject is not None
        key = key_of(subject)
        last_seen = self._last_seen.get((kind, key))
        if before is not last_seen:
            self._broken(
                CHAIN,
                f"{kind} {'/'.join(key)}: handlers had {_at(last_seen)}, the change is from {_at(before)}",
            )
        if before is not None and after is not None and uid_of(before) != uid_of(after):
            self._broken(ONE, f"{kind} {'/'.join(key)} changed into another object of the name")
        if after is None:
            self._last_seen.pop((kind, key), None)
            if uid_of(subject) not in self._checker.deaths and kind in dict(self._whole):
                self._broken(
                    DROPPED, f"{kind} {'/'.join(key)} is still there, but was removed from the cache"
                )
            return
        self._last_seen[kind, key] = after
        died = self._checker.deaths.get(uid_of(after))
        if before is None and died is not None and died <= self._reached.get(kind, 0):
            reached = self._reached[kind]
            self._broken(DEAD, f"{kind} {'/'.join(key)} was deleted at {died}, but was added after {reached}")

    def _broken(self, invariant: str, message: str) -> None:
        self._engine.broken(Violation(invariant, f"{self._process}: {message}", self._engine.since_s))


def _is_expected(error: str) -> bool:
    """Errors of a reflector that a server that is behind, or a broken stream, may cause."""
    return error.startswith(("WentBack", "Malformed", "NoWatchList"))


def _at(obj: Obj | None) -> str:
    return "nothing" if obj is None else f"revision {obj['metadata'].get('resourceVersion')}"


def _caches_in(state: object) -> Caches | None:
    """The caches of schedulers, controllers and agents."""
    caches = getattr(getattr(state, "controllers", state), "caches", None)
    return caches if isinstance(caches, Caches) else None


def _differences(world: World, process: str, caches: Caches) -> Iterator[str]:
    view = caches.snapshot()
    for kind in caches.kinds:
        scope = caches.scope(kind)
        on = scope.fields.removeprefix(ON_NODE) if scope.fields.startswith(ON_NODE) else ""
        if scope.selects and not on:
            continue
        if not view.synced(kind):
            yield f"{process} has not listed {kind}"
            continue
        listed = world.list(scope.resource.name, scope.namespace)
        truth = {key_of(obj): obj for obj in listed if not on or lookup(obj, "spec", "nodeName") == on}
        cached = {key_of(obj): obj for obj in view.list(kind)}
        for key in sorted({*truth, *cached}):
            in_cache, in_store = cached.get(key), truth.get(key)
            if _state(in_cache) != _state(in_store):
                yield f"{kind} {'/'.join(key)}: {process} has {_at(in_cache)}, the store has {_at(in_store)}"


def _state(obj: Obj | None) -> Obj | None:
    """Without kind and apiVersion, for comparison: a list leaves them out of its items."""
    return (
        None
        if obj is None
        else {name: obj[name] for name in sorted(obj) if name not in {"kind", "apiVersion"}}
    )
