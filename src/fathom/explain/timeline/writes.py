"""Entries from the audit log: writes, refused writes, and what admission did to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.timeline.overrides import created_words, override_of
from fathom.explain.timeline.scope import Scope
from fathom.explain.timeline.timeline import Edge, Entry, Source, words_for, write_id
from fathom.explain.timeline.unconfirmed import with_unconfirmed
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.accounts import NODE_USER, PREFIX
from fathom.model.audit import AuditEntry, Verdict
from fathom.model.decision import Decision, Outcome
from fathom.model.fields import steps_of, touches
from fathom.model.objects import Obj, lookup, metadata, uid_of

FIELDS_SHOWN = 3
# Written by the API server with every change: they say nothing about this one.
GENERATION = "metadata.generation"
EVERY_FIELD = ("*",)
UNTOLD_FIELDS = (GENERATION, "metadata.managedFields", "metadata.resourceVersion")
# Kinds that change all the time, and whose writes explain nothing.
CONNECTED = 101  # The code of exec, attach and port-forward.
UNTOLD_KINDS = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io"})


class Writes:
    """The audit log's entries, by the revision and the object that they wrote."""

    def __init__(self, evidence: Evidence) -> None:
        self._decisions: Mapping[str, Decision] = {
            record.kept.decision.id: record.kept.decision for record in evidence.decisions
        }
        self._by_id: dict[str, AuditEntry] = {}
        self._by_uid: dict[str, list[AuditEntry]] = {}  # In order of revision.
        self._removals: dict[str, list[AuditEntry]] = {}  # UID -> deletes, in order of revision.
        self._last: dict[str, int] = {}  # UID -> the newest revision on record.
        # The log has writes in the order of their answers: the first to be committed may be answered last.
        for entry in sorted(evidence.audit, key=lambda entry: entry.revision):
            if entry.wrote:
                self._by_id[write_id(entry.revision, audit_ref(entry))] = entry
                self._by_uid.setdefault(entry.uid, []).append(entry)
                self._last[entry.uid] = max(entry.revision, self._last.get(entry.uid, 0))
                if entry.verb == "delete" and not _only_marks(entry):
                    self._removals.setdefault(entry.uid, []).append(entry)
        self._possible = with_unconfirmed(evidence, self._by_uid)
        self._generations = {
            entry.id: generation
            for entries in self._possible.values()
            for entry, generation in generations(entries, evidence)
        }

    def generation(self, entry: AuditEntry) -> int:
        """Of the object, after the write; 0 where the records do not tell."""
        return self._generations.get(entry.id, 0)

    def get(self, id_: str) -> AuditEntry | None:
        return self._by_id.get(id_)

    def of(self, uid: str) -> Sequence[AuditEntry]:
        """The writes of one object, in order of revision."""
        return self._by_uid.get(uid, ())

    def possible(self, uid: str) -> Sequence[AuditEntry]:
        """Also those that may have been committed, each at the last place that it may have."""
        return self._possible.get(uid, ())

    def waking(self, decision: Decision) -> AuditEntry | None:
        """The write that a decision's cause names. Of a deleted object the cause has the last revision: the
        removal is the next delete of the same UID."""
        cause = decision.cause
        named = ObjectRef(cause.resource, cause.namespace, cause.name)
        entry = self._by_id.get(write_id(cause.revision, named)) if cause.revision else None
        if entry is None or not cause.gone:
            return entry
        removals = self._removals.get(entry.uid, ())
        return next((removal for removal in removals if removal.revision > cause.revision), None)

    def is_own(self, outcome: Outcome, decision: Decision, written: ObjectRef) -> bool:
        """Whether the decision made the write at the revision of its outcome. A settled outcome has the
        revision that a read found, and a write that changed nothing has that of an earlier one."""
        known = max((max(seen.revision, seen.applied) for seen in decision.seen.values()), default=0)
        if outcome.result != "committed" or outcome.revision <= max(known, decision.cause.revision):
            return False
        entry = self._by_id.get(write_id(outcome.revision, written))
        # Every write of ours names its decision: one that names none is a user's, who was faster.
        return entry is None or entry.decision == decision.id

    def actor(self, entry: AuditEntry) -> str:
        """The controller, where its decision is on record; else the user."""
        decision = self._decisions.get(entry.decision)
        return decision.controller if decision is not None else user_words(entry.user)

    def is_last(self, entry: AuditEntry, field: str) -> bool:
        """Whether no later write touched the field, nor one that may be later."""
        possible = self.possible(entry.uid)
        later = possible[possible.index(entry) + 1 :]
        return not any(touches(path, field) for other in later for path in other.changed)

    def is_newest(self, obj: Obj) -> bool:
        """Whether the object as it is was written by a write on record: then nothing happened since."""
        return str(self._last.get(uid_of(obj), 0)) == metadata(obj).get("resourceVersion")


def generations(entries: Sequence[AuditEntry], evidence: Evidence) -> Iterator[tuple[AuditEntry, int]]:
    """The generation of an object after each of its writes, which are in order of revision. Not of those that
    may be before or after a change that may not have been committed."""
    unsure = [
        place
        for place, entry in enumerate(entries)
        if not entry.wrote and any(touches(path, GENERATION) for path in entry.changed)
    ]
    first = entries[0]
    if not first.wrote or not (first.verb == "create" or first.changed == EVERY_FIELD):
        yield from _counted_back(entries[unsure[-1] + 1 if unsure else 0 :], evidence)
    elif unsure:
        yield first, 1
        yield from _counted_back(entries[unsure[-1] + 1 :], evidence)
    else:
        yield from _counted(entries, 1)


def _counted_back(entries: Sequence[AuditEntry], evidence: Evidence) -> Iterator[tuple[AuditEntry, int]]:
    """From what the object is now, if the last one wrote that."""
    entries = [entry for entry in entries if entry.wrote]
    obj = (_present(audit_ref(entries[-1]), evidence) if entries else None) or {}
    if entries and str(entries[-1].revision) == metadata(obj).get("resourceVersion"):
        steps = sum(map(_is_step, entries[1:]))
        yield from _counted(entries, int(metadata(obj).get("generation") or 0) - steps)


def _counted(entries: Sequence[AuditEntry], generation: int) -> Iterator[tuple[AuditEntry, int]]:
    """`generation` is that after the first. A write that changes it says so in `changed`."""
    for place, entry in enumerate(entry for entry in entries if entry.wrote):
        generation += place > 0 and _is_step(entry)
        yield entry, generation


def _is_step(entry: AuditEntry) -> bool:
    return GENERATION in entry.changed and entry.verb != "create"


def _only_marks(entry: AuditEntry) -> bool:
    """The object is still there: its containers end first, or a finalizer holds it."""
    return any(path.startswith("metadata.deletion") for path in entry.changed)


def audit_ref(entry: AuditEntry) -> ObjectRef:
    return ObjectRef(entry.resource, entry.namespace, entry.name, entry.uid)


def user_words(user: str) -> str:
    if user.startswith(NODE_USER):
        return f"agent of {user.removeprefix(NODE_USER)}"
    return user.removeprefix(PREFIX)


def write_entries(evidence: Evidence, scope: Scope, writes: Writes) -> tuple[list[Entry], list[Edge]]:
    """Writes of the objects in scope; and writes elsewhere that woke a decision about them, or that carry out
    a decision about the subject or what it owns: a preempted pod is in nobody's family."""
    named = {
        entry.id
        for record in evidence.decisions
        if scope.has(record.kept.decision.subject.uid)
        and (entry := writes.waking(record.kept.decision)) is not None
    }
    ours = {
        record.kept.decision.id
        for record in evidence.decisions
        if record.kept.decision.subject.uid in scope.uids
    }
    carried_out = {
        record.kept.decision.id
        for record in evidence.decisions
        if scope.role(record.kept.decision.subject.uid) in {"subject", "owned"}
    }
    entries: list[Entry] = []
    edges: list[Edge] = []
    for entry in evidence.audit:
        changed_nothing = entry.code < 400 and not entry.revision and entry.code != CONNECTED
        if entry.resource in UNTOLD_KINDS or entry.dry_run or changed_nothing:
            continue
        # A refused create has no UID: its decision tells for whom it was.
        refused_for_us = entry.code >= 400 and not entry.uid and entry.decision in ours
        if scope.has(entry.uid) or entry.id in named or refused_for_us or entry.decision in carried_out:
            write = _write(entry, evidence, writes)
            entries.append(write)
            # Of a write elsewhere only counts that it woke a decision.
            for verdict in _verdicts(entry) if scope.has(entry.uid) or refused_for_us else ():
                entries.append(verdict)
                edges.append(Edge(verdict.id, write.id, "led to"))
    return entries, edges


def _write(entry: AuditEntry, evidence: Evidence, writes: Writes) -> Entry:
    ref = audit_ref(entry)
    ids = {"audit": entry.id, "user": entry.user}
    ids |= {
        name: value for name, value in (("decision", entry.decision), ("request", entry.request)) if value
    }
    return Entry(
        id=write_id(entry.revision, ref) if entry.wrote else f"audit:{entry.id}",
        time=entry.time,
        source=_source(entry),
        actor=writes.actor(entry),
        text=write_text(entry, evidence, writes),
        object=ref,
        revision=entry.revision,
        generation=writes.generation(entry),
        ids=ids,
        routine=entry.wrote
        and bool(entry.changed)
        and all(path.startswith("status") for path in entry.changed),
    )


def _source(entry: AuditEntry) -> Source:
    return "override" if entry.resource == OVERRIDES else "audit"


def write_text(entry: AuditEntry, evidence: Evidence, writes: Writes) -> str:
    ref = audit_ref(entry)
    target = words_for(ref)
    if entry.code == CONNECTED:
        return _connection_text(entry, target)
    if not entry.wrote:
        return f"tries to {_verb(entry)} {target}: the API server answers {entry.code}"
    if entry.verb == "delete":
        return f"marks {target} for deletion" if _only_marks(entry) else f"deletes {target}"
    if entry.subresource == "binding":
        node = lookup(_present(ref, evidence) or {}, "spec", "nodeName")
        return f"binds {target} to {node}" if node else f"binds {target}"
    if entry.subresource == "eviction":
        return f"evicts {target}"
    if entry.changed == EVERY_FIELD or entry.verb == "create":
        override = override_of(_present(ref, evidence)) if entry.resource == OVERRIDES else None
        return f"creates {target}{'' if override is None else created_words(override)}"
    fields = [path for path in entry.changed if not path.startswith(UNTOLD_FIELDS)] or list(entry.changed)
    if fields and all(path.startswith("status") for path in fields):
        return f"writes the status of {target}: {_fields(_short(fields))}"
    value = _value(fields, entry, evidence, writes)
    return f"sets {_fields(fields)} of {target}{'' if value is None else f' to {value}'}"


def _connection_text(entry: AuditEntry, target: str) -> str:
    """Without the command: who may read a pod need not be allowed to read what was typed into it."""
    place = f"container {entry.container} of {target}" if entry.container else target
    if entry.seconds is not None:
        return f"ends its {entry.subresource} into {place} after {entry.seconds:g} s"
    did = {
        "exec": "runs a command in",
        "attach": "attaches to",
        "portforward": f"forwards {_ports(entry)} of",
    }
    return f"{did.get(entry.subresource, 'connects to')} {place}"


def _ports(entry: AuditEntry) -> str:
    numbers = ", ".join(map(str, entry.ports))
    return f"port{'' if len(entry.ports) == 1 else 's'}{' ' if numbers else ''}{numbers}"


def _verb(entry: AuditEntry) -> str:
    return f"{entry.verb} the {entry.subresource} of" if entry.subresource else entry.verb


def _short(fields: list[str]) -> list[str]:
    """'status.conditions[type=Ready].reason' -> 'condition Ready'; 'status.used[0].cpu' -> 'used'"""
    names = []
    for field in fields:
        steps = steps_of(field)
        condition = steps[2].removeprefix("type=") if steps[1:2] == ("conditions",) and len(steps) > 2 else ""
        names.append(f"condition {condition}" if condition else ".".join(steps[1:2]))
    return sorted(dict.fromkeys(names))


def _fields(fields: list[str]) -> str:
    more = len(fields) - FIELDS_SHOWN
    return ", ".join(fields[:FIELDS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _value(fields: list[str], entry: AuditEntry, evidence: Evidence, writes: Writes) -> int | str | None:
    """The audit log has no values. The last write of a field set the value that the object has now."""
    obj = _present(audit_ref(entry), evidence)
    if len(fields) == 1 and obj is not None and writes.is_newest(obj) and writes.is_last(entry, fields[0]):
        value = lookup(obj, *steps_of(fields[0]))
        return value if isinstance(value, int | str) else None
    return None


def _present(ref: ObjectRef, evidence: Evidence) -> Obj | None:
    obj = evidence.objects.get(ref.resource, ref.key)
    return obj if obj is not None and uid_of(obj) == ref.uid else None


def _verdicts(entry: AuditEntry) -> Iterator[Entry]:
    for number, verdict in enumerate(entry.admission):
        if verdict.denied or verdict.mutated:
            yield Entry(
                id=f"admission:{entry.id}:{number}",
                time=entry.time,
                source="admission",
                actor=f"admission plugin {verdict.plugin}",
                text=_verdict_text(verdict, audit_ref(entry)),
                object=audit_ref(entry),
                revision=entry.revision,
                ids={"audit": entry.id},
            )


def _verdict_text(verdict: Verdict, ref: ObjectRef) -> str:
    if verdict.denied:
        return f"refuses {words_for(ref)}: {verdict.denied}"
    return f"changes {_fields(list(verdict.mutated))} of {words_for(ref)}"
