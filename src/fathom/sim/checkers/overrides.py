"""Overrides: once the end of one is proven, no effect of it is left, and none appears again; nobody
acknowledges what it has not observed; and nobody's cordon is lifted by another. The first follows accounts,
marks and ledgers from commits alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fathom.cache.caches import Caches
from fathom.control.process import Controllers
from fathom.controllers.overrides.acknowledging import LOOPS
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS, moment_ns
from fathom.sim.checkers.explanations import NoTroubleIsHidden
from fathom.sim.checkers.override_effects import LATE_S, WITH_EFFECTS, effects_on, evicted_for
from fathom.sim.checkers.override_floor import (
    BlastRadiusWithinLimits,
    EffectsCarryTheUid,
    HonouredOnceAcknowledged,
    LastHealthyReplicaStays,
)
from fathom.sim.checkers.route_weights import PeoplesWeightsStay
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.violation import Violation

if TYPE_CHECKING:
    from fathom.sim.world.process import SimProcess
    from fathom.sim.world.world import World


class NothingIsLeftAfterTheProof(Checker):
    name = "no effect of an override is left after its proof"
    resources = WITH_EFFECTS | {OVERRIDES}

    def __init__(self) -> None:
        self._effects: dict[str, dict[str, None]] = {}  # UID of an override -> paths that carry it.
        self._proven: dict[str, str] = {}  # UID -> the override's path.

    def commit(self, change: Seen) -> Found:
        if change.resource == OVERRIDES:
            return self._override(change)
        before, after = (
            set(effects_on(change.resource, change.old)),
            set(effects_on(change.resource, change.new)),
        )
        for uid in sorted(before - after):
            self._effects.get(uid, {}).pop(change.path, None)
        for uid in sorted(after):
            self._effects.setdefault(uid, {})[change.path] = None
        late = sorted(uid for uid in after - before if uid in self._proven)
        if not late:
            return None
        proven = self._proven[late[0]]
        return Finding(f"{change.path} is an effect of {proven}, whose end was proven", (proven,))

    def _override(self, change: Seen) -> Found:
        obj = change.new or change.old or {}
        uid = uid_of(obj)
        if change.new is not None and not _is_proven(change.new):
            self._proven.pop(uid, None)  # It was extended.
            return None
        if change.new is None and not _is_proven(obj):
            return None  # It went without a finalizer: nobody has proven anything.
        self._proven[uid] = change.path
        left = list(self._effects.get(uid, ()))
        return Finding(f"{change.path} is proven over, and {left[0]} is left", tuple(left)) if left else None


class NothingActsAfterTheEnd(Checker):
    """Knows by itself when an override ends: when it is deleted, or at the end that is stamped on it."""

    name = "no effect of an override begins after its end"
    resources = WITH_EFFECTS | {OVERRIDES}

    def __init__(self) -> None:
        self._ends_s: dict[str, float] = {}  # UID -> when it ends.
        self._moves: set[str] = set()  # UIDs of those whose end evicts the pods that they placed.

    def begin(self, world: World) -> None:
        self._engine = world.engine

    def commit(self, change: Seen) -> Found:
        if change.resource == OVERRIDES:
            self._note(change)
            return None
        before, after = _effects(change.resource, change.old), _effects(change.resource, change.new)
        for uid in sorted(after - before):
            late_s = change.at_s - self._ends_s.get(uid, change.at_s)
            if late_s > LATE_S and not (uid in self._moves and evicted_for(change.new) == uid):
                return f"{change.path} became an effect of override {uid} {late_s:.1f} s after its end"
        return None

    def _note(self, change: Seen) -> None:
        obj = change.new or change.old or {}
        ends_ns = moment_ns(lookup(obj, "status", "expiresAt"))
        since_ns = self._engine.epoch_ns + self._engine.began_ns
        ends_s = float("inf") if ends_ns is None else (ends_ns - since_ns) / SECOND_NS
        if change.new is None or is_deleting(obj):
            ends_s = min(ends_s, self._ends_s.get(uid_of(obj), ends_s), change.at_s)
        self._ends_s[uid_of(obj)] = ends_s
        if lookup(obj, "spec", "onEnd") == "move":
            self._moves.add(uid_of(obj))


class DecidedWithoutTheEnded(Checker):
    """No decision on record rests on an override that has ended. Of processes whose clock is right."""

    name = "no decision rests on an override that has ended"
    resources = frozenset({OVERRIDES})

    def __init__(self) -> None:
        self._ends_ns: dict[str, int] = {}  # UID -> when it ends.

    def begin(self, world: World) -> None:
        self._engine = world.engine
        world.engine.record_readers.append(self)

    def commit(self, change: Seen) -> Found:
        ends_ns = moment_ns(lookup(change.new, "status", "expiresAt"))
        if change.new is not None and ends_ns is not None:
            self._ends_ns[uid_of(change.new)] = ends_ns
        return None

    # Called by the processes' journals.

    def decided(self, process: SimProcess, decision: Decision) -> None:
        now_ns = self._engine.epoch_ns + self._engine.now_ns
        for used in decision.overrides:
            ends_ns = self._ends_ns.get(used.uid, now_ns)
            itself = decision.subject.uid == used.uid  # Its end is decided about too.
            if used.decisive and not itself and not process.skew_ns and now_ns - ends_ns > LATE_S * SECOND_NS:
                about = f"{decision.verdict} of {decision.subject.name} by {decision.controller}"
                late_s = (now_ns - ends_ns) / SECOND_NS
                message = f"{about} rests on override {used.name}, which ended {late_s:.1f} s ago"
                self._engine.broken(Violation(self.name, message, self._engine.since_s))

    def concluded(self, process: SimProcess, outcome: Outcome) -> None: ...


class AcknowledgedIsObserved(Checker):
    """A process that acknowledges a generation has it in its own cache, and no pass of the controllers that
    it acknowledges for is going on that began before the generation was there."""

    name = "no override is acknowledged before it is observed"
    resources = frozenset({OVERRIDES})

    def __init__(self) -> None:
        self._processes: Mapping[str, SimProcess] = {}
        self._since_ns: dict[Key, int] = {}  # Override -> when it got the generation that it has.

    def begin(self, world: World) -> None:
        self._engine = world.engine
        self._processes = world.engine.processes

    def commit(self, change: Seen) -> Found:
        if _generation(change.old) != _generation(change.new):
            self._since_ns[change.key] = self._engine.now_ns
        before = lookup(change.old, "status", "acknowledgements") or ()
        new = [
            entry
            for entry in lookup(change.new, "status", "acknowledgements") or ()
            if entry not in before and entry.get("state") == "Honoring"
        ]
        process = self._processes.get(change.by)
        if not new or process is None or process.incarnation != change.incarnation:
            return None  # The cache from which a dead process wrote is gone.
        caches = getattr(process.state, "caches", None)
        if not isinstance(caches, Caches):
            return None
        cached = caches.snapshot_at(0.0).get("SchedulerOverride", change.key) or {}
        has = int(metadata(cached).get("generation") or 0)
        ahead = [entry for entry in new if int(entry.get("observedGeneration") or 0) > has]
        if ahead:
            whom = ahead[0]["controller"]
            return f"{change.by} acknowledges {change.path} for {whom}, and has generation {has}"
        return self._in_the_middle(change, process.state, [str(entry["controller"]) for entry in new])

    def _in_the_middle(self, change: Seen, state: object, controllers: list[str]) -> Found:
        loops = state.loops if isinstance(state, Controllers) else ()
        for name in controllers:
            for loop in loops:
                oldest_ns = loop.oldest_pass_ns if loop.name in LOOPS.get(name, ()) else None
                if oldest_ns is not None and oldest_ns < self._since_ns.get(change.key, 0):
                    earlier = f"while {loop.name} is in a pass from before it"
                    return f"{change.by} acknowledges {change.path} for {name} {earlier}"
        return None


class CordonsStay(Checker):
    name = "a cordon is lifted only by who made it"
    resources = frozenset({"nodes"})

    def __init__(self) -> None:
        self._made_by: dict[Key, str] = {}  # Node -> the process that cordoned it.

    def commit(self, change: Seen) -> Found:
        before, after = (bool(lookup(obj, "spec", "unschedulable")) for obj in (change.old, change.new))
        if after and not before:
            self._made_by[change.key] = change.by
        if not before or after or change.new is None:
            return None
        maker = self._made_by.pop(change.key, "")
        return f"{change.by} lifts the cordon of {maker}" if change.by != maker else None


def _generation(override: Obj | None) -> tuple[str, object]:
    return uid_of(override or {}), lookup(override, "metadata", "generation")


def _effects(resource: str, obj: Obj | None) -> set[str]:
    """The overrides that it is an effect of; of a pod also the one that evicts it."""
    evicted = evicted_for(obj) if resource == "pods" else ""
    return {uid for uid in (*effects_on(resource, obj), evicted) if uid}


def _is_proven(override: Obj) -> bool:
    return any(
        condition.get("type") == "RepairComplete" and condition.get("status") == "True"
        for condition in lookup(override, "status", "conditions") or ()
    )


def of_overrides() -> list[Checker]:
    """The checkers that hold wherever overrides are used."""
    return [
        NothingIsLeftAfterTheProof(),
        NothingActsAfterTheEnd(),
        DecidedWithoutTheEnded(),
        AcknowledgedIsObserved(),
        HonouredOnceAcknowledged(),
        EffectsCarryTheUid(),
        BlastRadiusWithinLimits(),
        LastHealthyReplicaStays(),
        NoTroubleIsHidden(OVERRIDES),
        PeoplesWeightsStay(),
    ]
