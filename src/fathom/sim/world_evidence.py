"""Evidence from a simulated world: objects from its store, decisions as its processes recorded them, their
caches. The same functions explain it as explain a live cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fathom.control.process import Controllers
from fathom.explain.evidence import Evidence, ObjectRef, ProcessState, Recorded
from fathom.model.decision import Decision, KeptDecision, Outcome, SeenVersions
from fathom.model.objects import Key, Obj, key_of
from fathom.schedule.loop.process import SchedulerProcess
from fathom.sim.world.invariants import Checker
from fathom.sim.world.process import SimProcess

if TYPE_CHECKING:
    from fathom.sim.world.world import World

DECISIONS_MAX = 20_000  # Of one run; the oldest are dropped.


class StoredObjects:
    """The world's store, each kind read once: valid until the next commit."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._listed: dict[str, dict[Key, Obj]] = {}

    def get(self, resource: str, key: Key) -> Obj | None:
        return self._of(resource).get(key)

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        objects = self._of(resource)
        return [obj for key, obj in objects.items() if namespace in {None, key.namespace}]

    def revision(self, resource: str) -> int:
        return self._world.engine.store.newest

    def _of(self, resource: str) -> dict[Key, Obj]:
        if resource not in self._listed:
            objects = self._world.list(resource) if resource else []
            self._listed[resource] = {key_of(obj): obj for obj in sorted(objects, key=key_of)}
        return self._listed[resource]


class RecordedDecisions(Checker):
    """Keeps what the processes of a world record. It finds nothing wrong."""

    name = "decisions are kept"
    resources = frozenset[str]()

    def __init__(self) -> None:
        self._decisions: dict[str, tuple[str, Decision]] = {}  # Id -> process and decision, in order.
        self._outcomes: dict[str, list[Outcome]] = {}

    def begin(self, world: World) -> None:
        world.engine.record_readers.append(self)

    def decided(self, process: SimProcess, decision: Decision) -> None:
        self._decisions[decision.id] = (process.name, decision)
        if len(self._decisions) > DECISIONS_MAX:
            oldest = next(iter(self._decisions))
            del self._decisions[oldest]
            self._outcomes.pop(oldest, None)

    def concluded(self, process: SimProcess, outcome: Outcome) -> None:
        self._outcomes.setdefault(outcome.id, []).append(outcome)

    def records(self) -> tuple[Recorded, ...]:
        return tuple(
            Recorded(process, KeptDecision(decision, tuple(self._outcomes.get(decision.id, ()))))
            for process, decision in self._decisions.values()
        )


def world_evidence(world: World, resource: str, key: Key) -> Evidence:
    """Without an audit log: only chronicled runs have one."""
    kept = next((checker for checker in world.checkers if isinstance(checker, RecordedDecisions)), None)
    return Evidence(
        subject=ObjectRef(resource, *key),
        objects=StoredObjects(world),
        decisions=() if kept is None else kept.records(),
        processes=tuple(
            state for process in world.engine.processes.values() if (state := _state(process)) is not None
        ),
        now_ns=world.engine.epoch_ns + world.engine.now_ns,
    )


def _state(process: SimProcess) -> ProcessState | None:
    running = process.state
    if not process.alive or not isinstance(running, Controllers | SchedulerProcess):
        return None
    part = "scheduler" if isinstance(running, SchedulerProcess) else "controllers"
    snapshot = running.caches.snapshot_at(process.domain.time())
    caches: dict[str, SeenVersions] = {kind: snapshot.seen(kind) for kind in snapshot.kinds}
    return ProcessState(process=process.name, parts=(part,), caches=caches)
