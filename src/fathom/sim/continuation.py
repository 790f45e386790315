"""Goes on from a recorded state in a fork, and tells what happened there: `fathom replay --continue`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from fathom.api.resource_cache import REGISTRY
from fathom.model.conditions import is_true
from fathom.model.objects import Obj, is_deleting, lookup
from fathom.model.times import micro_timestamp
from fathom.sim.fork import end, fork, run_for
from fathom.sim.fork_state import ClusterState
from fathom.sim.world.world import World
from fathom.store.protocol import Change

# Changes that are told; later ones are counted.
CHANGES_MAX = 10_000
# Heartbeats, elections, and records about other objects.
QUIET = tuple(
    f"{REGISTRY}{resource}"
    for resource in ("leases.coordination.k8s.io/", "events/", "nodes/", "fences.", "ledgers.", "signals.")
)


class PodCounts(msgspec.Struct, frozen=True):
    pods: int
    bound: int
    running: int
    ready: int


class WorldChange(msgspec.Struct, frozen=True):
    at_s: float
    object: str  # 'pods/default/web-1'
    what: str  # 'bound to node-3'


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in the fork. The same state, seed and code give the same."""

    seed: str
    seconds: float
    since: str
    until: str
    from_revision: int
    to_revision: int
    before: PodCounts
    after: PodCounts
    changes: tuple[WorldChange, ...]
    more_changes: int  # Not in `changes`.
    trace: str  # A digest of the whole run.


def go_on(state: ClusterState, *, seconds: float, seed: str) -> Continuation:
    """Raises ForkFailed."""
    world = fork(state, seed)
    try:
        before, noted = counts_of(world), _NotedChanges(world)
        run_for(world, seconds)
        return Continuation(
            seed=seed,
            seconds=seconds,
            since=micro_timestamp(state.time_ns),
            until=micro_timestamp(world.engine.epoch_ns + world.engine.now_ns),
            from_revision=state.contents.revision,
            to_revision=world.engine.store.newest,
            before=before,
            after=counts_of(world),
            changes=tuple(noted.changes[:CHANGES_MAX]),
            more_changes=max(0, len(noted.changes) - CHANGES_MAX),
            trace=world.engine.trace.hexdigest(),
        )
    finally:
        end(world)


def counts_of(world: World) -> PodCounts:
    pods = world.list("pods")
    phases = Counter(str(lookup(pod, "status", "phase")) for pod in pods)
    return PodCounts(
        pods=len(pods),
        bound=sum(bool(lookup(pod, "spec", "nodeName")) for pod in pods),
        running=phases["Running"],
        ready=sum(is_true(pod, "Ready") for pod in pods),
    )


class _NotedChanges:
    def __init__(self, world: World) -> None:
        self._world = world
        self.changes: list[WorldChange] = []
        world.engine.watchers.append(self._commit)

    def _commit(self, changes: Sequence[Change]) -> None:
        at_s = round(self._world.now_s, 3)
        for change in changes:
            if change.key.startswith(REGISTRY) and not change.key.startswith(QUIET):
                name = change.key.removeprefix(REGISTRY)
                self.changes += [WorldChange(at_s, name, what) for what in _what(name, change)]


def _what(name: str, change: Change) -> Iterator[str]:
    old = None if change.previous is None else change.previous.body.obj
    new = None if change.entry is None else change.entry.body.obj
    if old is None or new is None:
        yield "created" if old is None else "deleted"
        if old is not None or new is None or not lookup(new, "spec", "nodeName"):
            return
    if name.startswith("pods/"):
        yield from _pod_change(old or {}, new)
    elif old is not None and old.get("spec") != new.get("spec"):
        yield from _spec_change(old, new)


def _pod_change(old: Obj, new: Obj) -> Iterator[str]:
    node = lookup(new, "spec", "nodeName")
    if node and not lookup(old, "spec", "nodeName"):
        yield f"bound to {node}"
    if is_deleting(new) and not is_deleting(old):
        yield "is being deleted"
    phase = lookup(new, "status", "phase")
    if phase != lookup(old, "status", "phase") and phase:
        yield str(phase)
    if is_true(new, "Ready") != is_true(old, "Ready"):
        yield "ready" if is_true(new, "Ready") else "not ready"
    if _restarts(new) > _restarts(old):
        yield f"restarted, {_restarts(new)} times in all"


def _restarts(pod: Obj) -> int:
    statuses = lookup(pod, "status", "containerStatuses") or ()
    return sum(int(status.get("restartCount") or 0) for status in statuses)


def _spec_change(old: Obj, new: Obj) -> Iterator[str]:
    before, after = lookup(old, "spec", "replicas"), lookup(new, "spec", "replicas")
    if before != after:
        yield f"replicas {before} to {after}"
    else:
        yield "spec changed"
