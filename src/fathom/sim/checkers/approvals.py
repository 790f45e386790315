"""Approvals of overrides: followed by who sent which request, and again from the audit log alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fathom.kinds.override_stamps import hash_of
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.audit import AuditEntry
from fathom.model.objects import Obj, lookup, uid_of
from fathom.sim.checkers.override_effects import WITH_EFFECTS, effects_on, evicted_for
from fathom.sim.report.chronicle import Audited
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.process import SimProcess
from fathom.sim.world.world import World

LIMITS = "steeringlimits.fathom.dev"
RISKY = ("drain", "trafficWeights", "approveRepairs")
APPROVAL = "approval"  # The subresource.
OUTCOME_UNKNOWN = 504


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


class SpecWrite(msgspec.Struct, frozen=True):
    """A commit that wrote the spec of an override, or approved one."""

    revision: int
    uid: str
    name: str
    user: str
    spec: str  # Its hash.
    approves: bool = False


class ApprovalsAreInTheAuditLog(Checker):
    """The audit log alone shows for each approval that its hash is that of the spec that was last written
    before it, and that its approver wrote none. Every write of a spec is in the log, unless its server died
    before it answered. Needs a chronicle, which has the audit entries."""

    name = "the audit log confirms each approval"
    resources = frozenset({OVERRIDES})

    def __init__(self) -> None:
        self._commits: list[tuple[SpecWrite, SimProcess, int]] = []  # With the server, and which life it was.

    def begin(self, world: World) -> None:
        self._engine = world.engine

    def commit(self, change: Seen) -> Found:
        if change.new is None or lookup(change.old, "spec") == change.new.get("spec"):
            return None
        assert self._engine.committer is not None
        user, server = self._engine.processes[change.by].user.name, self._engine.committer.server
        uid, spec = uid_of(change.new), hash_of(change.new)
        write = SpecWrite(change.revision, uid, change.key.name, user, spec)
        self._commits.append((write, server, server.incarnation))
        return None

    def settled(self, world: World) -> Iterable[str | Finding]:
        assert world.engine.chronicle is not None, "the scenario must be chronicled"
        events = world.engine.chronicle.events
        entries = [
            event.entry
            for event in events
            if isinstance(event, Audited) and event.entry.resource == OVERRIDES and _spec_hash(event.entry)
        ]
        logged = [_logged(entry) for entry in entries if entry.wrote]
        # 1. A server sends a commit. 2. The store commits. 3. The outcome does not reach the server, which
        # answers 504; or the server dies. So no entry has the revision: that of the 504 has only the hash.
        revisions = {write.revision for write in logged}
        others = [commit for commit in self._commits if commit[0].revision not in revisions]
        for write, server, life in others:
            died = not server.alive or server.incarnation != life
            if not died and not any(_may_have_made(entry, write) for entry in entries):
                yield f"no entry has the spec {write.spec[:8]} that {write.user} wrote to {write.name}"
        yield from _wrong_approvals([*logged, *(write for write, _, _ in others)])


def _logged(entry: AuditEntry) -> SpecWrite:
    approves = entry.subresource == APPROVAL
    return SpecWrite(entry.revision, entry.uid, entry.name, entry.user, _spec_hash(entry), approves)


def _may_have_made(entry: AuditEntry, write: SpecWrite) -> bool:
    """Whether it is of a write whose outcome the server did not know. That of a create has no UID."""
    if entry.code != OUTCOME_UNKNOWN or entry.uid not in {"", write.uid}:
        return False
    return (entry.user, _spec_hash(entry)) == (write.user, write.spec) and entry.subresource != APPROVAL


def _wrong_approvals(writes: Iterable[SpecWrite]) -> Iterator[str]:
    specs: dict[str, tuple[str, set[str]]] = {}  # UID -> the hash of its spec, and who wrote one.
    for write in sorted(writes, key=lambda write: write.revision):
        current, writers = specs.get(write.uid, ("", set()))
        if not write.approves:
            specs[write.uid] = (write.spec, {*writers, write.user})
        elif current and (write.spec != current or write.user in writers):
            yield f"{write.user} approved {write.spec[:8]} of {write.name}: it was {current[:8]} by {writers}"


def _is_risky(override: Obj) -> bool:
    changes = lookup(override, "spec", "changes") or {}
    return any(changes.get(name) for name in RISKY)


def _spec_hash(entry: AuditEntry) -> str:
    notes = [note for verdict in entry.admission for note in verdict.notes]
    return next((value for name, value in notes if name == "spec-hash"), "")
