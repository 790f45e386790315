"""Overrides: once the end of one is proven, no effect of it is left, and none appears again; nobody
acknowledges what it has not observed; and nobody's cordon is lifted by another. The first follows accounts,
marks and ledgers from commits alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fathom.api.ledger.accounts import TENANT_BOOKS
from fathom.cache.caches import Caches
from fathom.kinds.reservation import HOLDING, RESERVATIONS
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.process import SimProcess
    from fathom.sim.world.world import World

ROUTES = "trafficroutes.fathom.dev"
ACCOUNT, USED, MADE_BY = "fathom.dev/account", "fathom.dev/overrides", "fathom.dev/override"


class NothingIsLeftAfterTheProof(Checker):
    name = "no effect of an override is left after its proof"
    resources = frozenset({"pods", RESERVATIONS, ROUTES, TENANT_BOOKS, OVERRIDES})

    def __init__(self) -> None:
        self._effects: dict[str, dict[str, None]] = {}  # UID of an override -> paths that carry it.
        self._proven: dict[str, str] = {}  # UID -> the override's path.

    def commit(self, change: Seen) -> Found:
        if change.resource == OVERRIDES:
            return self._override(change)
        before, after = set(_uids(change.resource, change.old)), set(_uids(change.resource, change.new))
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


class AcknowledgedIsObserved(Checker):
    """A process that acknowledges a generation has it in its own cache."""

    name = "no override is acknowledged before it is observed"
    resources = frozenset({OVERRIDES})

    def __init__(self) -> None:
        self._processes: Mapping[str, SimProcess] = {}

    def begin(self, world: World) -> None:
        self._processes = world.engine.processes

    def commit(self, change: Seen) -> Found:
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
        if not ahead:
            return None
        return (
            f"{change.by} acknowledges {change.path} for {ahead[0]['controller']}, and has generation {has}"
        )


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


def _is_proven(override: Obj) -> bool:
    return any(
        condition.get("type") == "RepairComplete" and condition.get("status") == "True"
        for condition in lookup(override, "status", "conditions") or ()
    )


def _uids(resource: str, obj: Obj | None) -> Iterable[str]:
    """The UIDs of overrides that the object is an effect of, while it lasts."""
    if obj is None:
        return ()
    if resource == TENANT_BOOKS:
        return tuple(obj.get("overrides") or ())
    notes = metadata(obj).get("annotations") or {}
    if resource == ROUTES:
        return _named(notes.get(MADE_BY))
    phase = lookup(obj, "status", "phase") or ""
    over = phase in TERMINAL_PHASES if resource == "pods" else phase not in HOLDING
    parts = str(notes.get(ACCOUNT) or "").split("/")
    return () if over else (*parts[3:4], *_named(notes.get(USED)))


def _named(marks: object) -> tuple[str, ...]:
    entries = str(marks or "").split(",")
    return tuple(uid for entry in entries if (uid := entry.partition("@")[2]))
