"""A reservation stays while its pod waits to be scheduled: repair releases only those that no pod needs.

A pod that was deleted, ended or has a node never waits again, and its UID never comes back. So however old
the cache in which a controller saw that, it is still true when its write commits: no tolerance is needed.
"""

from __future__ import annotations

from fathom.model.objects import Obj, is_deleting, lookup, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.times import moment_ns
from fathom.sim.world.invariants import RESERVATIONS, Checker, Finding, Found, Seen, intent_of
from fathom.sim.world.world import World

HOLDING = frozenset({"", "Active"})
LATENCY_NS = 2_000_000_000  # Between the judgement and its commit.


class WaitedForStaysReserved(Checker):
    """The process that no longer needs a reservation deletes it; phase Released means that no pod needs it.
    Then its pod does not wait, or the same intent has another reservation. (Expired ones have their own
    phase.)"""

    name = "a waiting pod keeps its reservation"
    resources = frozenset({"pods", RESERVATIONS})

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}  # UID -> path, of pods.
        self._holding: dict[tuple[str, ...], dict[str, None]] = {}  # Intent -> names of reservations.

    def commit(self, change: Seen) -> Found:
        if change.resource == "pods":
            self._follow(change)
            return None
        if change.old is not None:
            self._holding.get(intent_of(change.old), {}).pop(change.key.name, None)
        if change.new is not None and _phase(change.new) in HOLDING:
            self._holding.setdefault(intent_of(change.new), {})[change.key.name] = None
        return self._released(change)

    def _follow(self, change: Seen) -> None:
        if change.old is not None:
            self._waiting.pop(uid_of(change.old), None)
        if change.new is not None and _waits(change.new):
            self._waiting[uid_of(change.new)] = change.path

    def _released(self, change: Seen) -> Found:
        if change.old is None or change.new is None or _phase(change.old) not in HOLDING:
            return None
        holder = str(lookup(change.new, "metadata", "annotations", "fathom.dev/pod-uid") or "")
        if _phase(change.new) != "Released" or holder not in self._waiting:
            return None
        if self._holding.get(intent_of(change.new)):
            return None
        path = self._waiting[holder]
        return Finding(
            f"{change.by} released {change.key.name}, but {path} still waits for its room", (path,)
        )


class WaitedForDoesNotExpire(WaitedForStaysReserved):
    """Whoever still needs a reservation renews it. For scenarios in which one scheduler always runs."""

    name = "a reservation does not expire while its pod waits"

    def _released(self, change: Seen) -> Found:
        if change.new is None or _phase(change.new) != "Expired":
            return None
        holder = str(lookup(change.new, "metadata", "annotations", "fathom.dev/pod-uid") or "")
        path = self._waiting.get(holder)
        return None if path is None else Finding(f"{change.key.name} expired, but {path} waits", (path,))


class NobodyIsBoundTooLate(Checker):
    """A reservation that has expired holds nothing any more: no pod is bound with it. For scenarios in which
    the clocks of API servers are right."""

    name = "no pod is bound with an expired reservation"
    resources = frozenset({RESERVATIONS})

    def begin(self, world: World) -> None:
        self._engine = world.engine

    def commit(self, change: Seen) -> Found:
        if change.old is None or change.new is None or _phase(change.new) != "Bound":
            return None
        expires_ns = moment_ns(lookup(change.old, "spec", "expiresAt"))
        now_ns = self._engine.epoch_ns + self._engine.now_ns
        late = _phase(change.old) in HOLDING and expires_ns is not None and now_ns >= expires_ns + LATENCY_NS
        return f"a pod was bound with {change.key.name}, which had expired" if late else None


def _phase(reservation: Obj) -> str:
    return str(lookup(reservation, "status", "phase") or "")


def _waits(pod: Obj) -> bool:
    ended = lookup(pod, "status", "phase") in TERMINAL_PHASES
    return not lookup(pod, "spec", "nodeName") and not is_deleting(pod) and not ended
