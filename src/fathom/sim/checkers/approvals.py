"""Approvals of overrides: followed by who sent which request, and again from the audit log alone."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.audit import AuditEntry
from fathom.model.objects import Obj, lookup, uid_of
from fathom.sim.checkers.override_effects import WITH_EFFECTS, effects_on, evicted_for
from fathom.sim.report.chronicle import Audited
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.world import World

LIMITS = "steeringlimits.fathom.dev"
RISKY = ("drain", "trafficWeights", "approveRepairs")


class OnlyTheApprovedActs(Checker):
    """Where approvals are on: what is in force was approved as it is, by somebody who wrote none of it."""

    name = "nothing is in force that somebody else has not approved"
    resources = WITH_EFFECTS | {OVERRIDES, LIMITS}

    def __init__(self) -> None:
        self._needed = False
        self._writers: dict[str, set[str]] = {}  # UID -> who wrote its specs.
        self._approved: dict[str, Obj] = {}  # UID -> the spec that was approved.
        self._waiting: dict[str, str] = {}  # UID of those that need an approval and have none -> their path.

    def begin(self, world: World) -> None:
        self._processes = world.engine.processes

    def commit(self, change: Seen) -> Found:
        if change.resource == LIMITS:
            self._needed = lookup(change.new, "spec", "approvals") == "on"
            return None
        if change.resource == OVERRIDES:
            return self._override(change)
        return self._effect(change)

    def _override(self, change: Seen) -> Found:
        if change.new is None:
            return None
        uid, user = uid_of(change.new), self._processes[change.by].user.name
        edited = change.old is None or change.old.get("spec") != change.new.get("spec")
        approval = lookup(change.new, "status", "approval") or {}
        if edited:
            self._writers.setdefault(uid, set()).add(user)
        if edited and self._needed and not approval.get("required") and _is_risky(change.new):
            return f"{user} wrote {change.path}, and it needs no approval"
        if not approval.get("required"):
            self._waiting.pop(uid, None)
            return None
        if approval.get("approved") is not True:
            self._waiting[uid] = change.path
            return None
        self._waiting.pop(uid, None)
        return self._judged(change, uid, user, approval)

    def _judged(self, change: Seen, uid: str, user: str, approval: Obj) -> Found:
        assert change.new is not None
        before, spec = lookup(change.old, "status", "approval") or {}, change.new.get("spec") or {}
        if before.get("approved") is not True or before.get("approver") != approval.get("approver"):
            writers = self._writers.get(uid, set())
            if user in writers or user != approval.get("approver"):
                return f"{user} approved {change.path}, whose spec {', '.join(sorted(writers))} wrote"
            self._approved[uid] = spec
        if self._approved.get(uid) != spec:
            return f"{change.path} is in force with a spec that nobody approved, by {user}"
        return None

    def _effect(self, change: Seen) -> Found:
        old, new = (
            {*effects_on(change.resource, obj), evicted_for(obj) if change.resource == "pods" else ""}
            for obj in (change.old, change.new)
        )
        for uid in sorted(new - old):
            if uid in self._waiting:
                waiting = self._waiting[uid]
                return Finding(
                    f"{change.path} is an effect of {waiting}, which waits for approval", (waiting,)
                )
        return None


class ApprovalsAreInTheAuditLog(Checker):
    """The audit log alone shows for each approval that its hash is that of the spec that was last written
    before it, and that its approver wrote none. Needs a chronicle, which has the audit entries."""

    name = "the audit log confirms each approval"

    def settled(self, world: World) -> Iterable[str | Finding]:
        assert world.engine.chronicle is not None, "the scenario must be chronicled"
        entries = [event.entry for event in world.engine.chronicle.events if isinstance(event, Audited)]
        of_overrides = [entry for entry in entries if entry.resource == OVERRIDES and entry.wrote]
        specs: dict[str, tuple[str, set[str]]] = {}  # UID -> the hash of its spec, and who wrote one.
        for entry in sorted(of_overrides, key=lambda entry: entry.revision):
            noted = _spec_hash(entry)
            if not noted:
                continue
            current, writers = specs.get(entry.uid, ("", set()))
            if entry.subresource != "approval":
                specs[entry.uid] = (noted, {*writers, entry.user})
            elif current and (noted != current or entry.user in writers):
                yield f"{entry.user} approved {noted[:8]} of {entry.name}: it was {current[:8]} by {writers}"


def _is_risky(override: Obj) -> bool:
    changes = lookup(override, "spec", "changes") or {}
    return any(changes.get(name) for name in RISKY)


def _spec_hash(entry: AuditEntry) -> str:
    notes = [note for verdict in entry.admission for note in verdict.notes]
    return next((value for name, value in notes if name == "spec-hash"), "")
