"""Marks of evictions: the condition DisruptionTarget is written on the pod that was to be evicted, and not on
another that has its name since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fathom.controllers.repair.controller import RepairPods
from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.well_known import DECISION_HEADER
from fathom.sim.checkers.statuses import controllers_at_work
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.process import SimProcess
    from fathom.sim.world.world import World

BY_SCHEDULER = "PreemptionByScheduler"


class VictimsAreMarked(Checker):
    """A scheduler marks a pod as a victim only by a decision that names it, and that was made from a view in
    which this pod was there: a pod of its name that came later is not the victim. At rest no mark is left of
    one that lives on: its scheduler takes it back, or repair if the scheduler has crashed."""

    name = "only the victims of a preemption are marked"
    resources = frozenset({"pods"})
    patience_s = 180.0  # Repair waits for two minutes.

    def __init__(self) -> None:
        self._made: dict[str, int] = {}  # UID of a pod -> the revision at which it was created.
        self._seen: dict[
            str, tuple[int, frozenset[Key]]
        ] = {}  # Decision -> how new its view was, its victims.

        self._marked_by: dict[str, tuple[str, int] | None] = {}  # UID -> which life of whom. None: unknown.
        self._unsure: set[Key] = set()
        self._processes: Mapping[str, SimProcess] = {}

    def begin(self, world: World) -> None:
        self._processes = world.engine.processes
        world.engine.record_readers.append(self)

    def decided(self, process: SimProcess, decision: Decision) -> None:
        if decision.victims and (view := decision.seen.get("Pod")) is not None:
            names = (victim.split(":")[0].split("/") for victim in decision.victims)
            victims = frozenset(Key(namespace, name) for namespace, name in names)
            self._seen[decision.id] = (max(view.revision, view.applied), victims)

    def concluded(self, process: SimProcess, outcome: Outcome) -> None:
        """A delete without an answer may still arrive: only repair may say later that it has not."""
        if outcome.result == "unknown" and outcome.object is not None:
            self._unsure.add(Key(outcome.object.namespace, outcome.object.name))

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            return None
        uid = uid_of(change.new)
        if change.old is None:
            self._made[uid] = change.revision
        if not _is_marked(change.new) or (change.old is not None and _is_marked(change.old)):
            return None
        marker = self._processes.get(change.by) if not change.late else None
        self._marked_by[uid] = None if marker is None else (change.by, marker.incarnation)
        decision = dict(change.headers).get(DECISION_HEADER, "")
        if decision not in self._seen:
            return f"{change.by} marked {change.key.name} as a victim, by no decision that has victims"
        newest, victims = self._seen[decision]
        if change.key not in victims:
            return f"{change.by} marked {change.key.name} as a victim, and its decision names others"
        if self._made.get(uid, 0) > newest:
            made = f"was made at revision {self._made[uid]}"
            return f"{change.by} marked {change.key.name}, which {made}: its decision saw pods of {newest}"
        return None

    def settled(self, world: World) -> Iterable[Finding]:
        lives = {(name, process.incarnation) for name, process in self._processes.items() if process.alive}
        is_repaired = RepairPods.name in controllers_at_work(world)
        for pod in world.list("pods"):
            key, ended = key_of(pod), lookup(pod, "status", "phase") in TERMINAL_PHASES
            if not _is_marked(pod) or is_deleting(pod) or ended:
                continue
            if is_repaired or (self._marked_by.get(uid_of(pod)) in lives and key not in self._unsure):
                message = f"{key.name} is marked as a victim, but nobody deletes it"
                yield Finding(message, (f"pods/{key.namespace}/{key.name}",))


def _is_marked(pod: Obj) -> bool:
    return any(
        (condition.get("type"), condition.get("status"), condition.get("reason"))
        == ("DisruptionTarget", "True", BY_SCHEDULER)
        for condition in lookup(pod, "status", "conditions") or ()
    )
