"""Entries from decision journals: the wait in the queue, the decision, the rules that rejected nodes, and
outcomes that wrote nothing. What a decision did write is an entry of the audit log (`writes`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef, Recorded
from fathom.explain.timeline.decision_path import path_of_decision
from fathom.explain.timeline.scope import Scope, uid_at
from fathom.explain.timeline.timeline import Edge, Entry, decision_id, singular, words_for, write_id
from fathom.explain.timeline.writes import Writes, audit_ref
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, Outcome, Subject
from fathom.model.objects import Key, labels_of
from fathom.model.record_query import victims_of
from fathom.model.times import micro_timestamp
from fathom.model.well_known import ZONE_LABEL

# A shorter wait in a queue is not worth an entry of its own.
QUEUED_MS_MIN = 1.0
NAMES_SHOWN = 5
ROUTINE = frozenset({"status", "nothing", "report"})  # Verdicts that change nothing but a report.
VERBS = {"create": "create", "delete": "delete", "patch": "change", "status": "report", "update": "change"}
AGENT = "agent"  # As agents name themselves in their decisions.
STATUS = "status"  # The verb of an outcome.


def ours(evidence: Evidence, scope: Scope) -> list[tuple[Recorded, ObjectRef]]:
    """The decisions about objects in scope, and those that wrote them. A pass that failed with an exception
    has no UID on record: its name counts where it can mean one object only."""
    listed = []
    writers = {entry.decision for entry in evidence.audit if entry.uid in scope.uids and entry.decision}
    for record in evidence.decisions:
        subject = record.kept.decision.subject
        uid = subject.uid or uid_at(
            subject.resource,
            Key(subject.namespace, subject.name),
            record.kept.decision.time_ns,
            evidence,
        )
        if scope.has(uid) or record.kept.decision.id in writers or _wrote(record, scope):
            listed.append((record, ObjectRef(subject.resource, subject.namespace, subject.name, uid)))
    return listed


def _wrote(record: Recorded, scope: Scope) -> bool:
    return any(
        outcome.object is not None and outcome.object.uid in scope.uids for outcome in record.kept.outcomes
    )


def decision_entries(evidence: Evidence, scope: Scope, writes: Writes) -> tuple[list[Entry], list[Edge]]:
    entries: list[Entry] = []
    edges: list[Edge] = []
    for record, ref in ours(evidence, scope):
        decision = record.kept.decision
        entry = _decision(record, ref, evidence)
        entries.append(entry)
        queued = _queued(decision, ref, record.process, evidence)
        first = entry if queued is None else queued
        if queued is not None:
            entries.append(queued)
            edges.append(Edge(queued.id, entry.id, "led to"))
        if (waking := writes.waking(decision)) is not None:
            edges.append(Edge(write_id(waking.revision, audit_ref(waking)), first.id, "woke"))
        if decision.cause.decision:
            edges.append(Edge(decision_id(decision.cause.decision), first.id, "woke"))
        for rule in _rules(record, ref, evidence):
            entries.append(rule)
            edges.append(Edge(rule.id, entry.id, "led to"))
        for number, outcome in enumerate(record.kept.outcomes):
            if outcome.result == "held":
                continue  # The decision itself says what it waits for.
            if _is_namesake(outcome.object, scope.subject):
                continue  # An owner's decision created another object of the subject's name.
            is_own = writes.is_own(outcome, decision, _written(outcome.object, ref))
            written, edge = _outcome(number, outcome, decision, ref, is_own=is_own)
            entries.append(written)
            edges.append(edge)
    return entries, [*edges, *_first_reports(evidence, scope, writes)]


def _first_reports(evidence: Evidence, scope: Scope, writes: Writes) -> Iterator[Edge]:
    """An agent receives only pods that are bound to its node: its first decision about a pod follows from the
    binding, although it is woken by what its containers do."""
    first: dict[str, Decision] = {}
    for record in evidence.decisions:
        decision = record.kept.decision
        if decision.controller == AGENT and decision.subject.resource == "pods":
            first.setdefault(decision.subject.uid, decision)
    for uid, decision in first.items():
        bindings = [entry for entry in writes.of(uid) if entry.subresource == "binding"]
        if writes.waking(decision) is not None:
            continue  # It is on record what woke it.
        if scope.has(uid) and len(bindings) == 1:
            bound = write_id(bindings[0].revision, audit_ref(bindings[0]))
            yield Edge(bound, decision_id(decision.id), "led to", inferred=True)


def _decision(record: Recorded, ref: ObjectRef, evidence: Evidence) -> Entry:
    decision = record.kept.decision
    return Entry(
        id=decision_id(decision.id),
        time=micro_timestamp(decision.time_ns),
        source="decision",
        actor=decision.controller,
        text=decision_text(decision, ref, victims=victims_words(decision.victims, evidence)),
        object=ref,
        generation=decision.subject.generation,
        ids={"decision": decision.id, **({"process": record.process} if record.process else {})},
        path=path_of_decision(record, may_read_nodes=evidence.may_read_nodes),
        routine=decision.verdict in ROUTINE,
    )


def is_attempt(decision: Decision) -> bool:
    """A scheduler's attempt to place a pod."""
    return decision.subject.resource == "pods" and (decision.nodes > 0 or bool(decision.place))


def decision_text(decision: Decision, ref: ObjectRef, *, victims: str = "") -> str:
    target = words_for(ref)
    attempt = f" (attempt {decision.attempt})" if decision.attempt > 1 else ""
    first = decision.message.partition("\n")[0].rstrip(" :")
    message = f": {first}" if first else ""
    match decision.verdict:
        case "bind":
            fit = decision.nodes - sum(decision.filters.values())
            best = f", the best of {fit} nodes that fit" if fit > 1 else ", the only node that fits"
            return f"chooses {decision.node} for {target}{attempt}{best if decision.nodes else ''}"
        case "unschedulable":
            return f"finds no node for {target}{attempt}{message}"
        case "preempt":
            return f"makes room on {decision.node} for {target}{attempt}: it evicts {victims}"
        case "hold":
            return f"waits before it acts on {target}: {decision.need or decision.message}"
        case "report":
            return f"reports about {target}{message}"
        case "died":
            return f"fails with an exception while it handles {target}{message}"
        case "nothing":
            return f"leaves {target} as it is{message}"
        case verdict:
            return f"decides {_verdict_words(verdict)} for {target}{attempt}{message}"


def _verdict_words(verdict: str) -> str:
    """'create+status' -> 'to create and report'. Other verdicts are said as they are recorded."""
    words = [VERBS.get(word, "") for word in verdict.split("+")]
    return f"to {' and '.join(words)}" if all(words) else verdict


def _queued(decision: Decision, ref: ObjectRef, process: str, evidence: Evidence) -> Entry | None:
    """The moment when the key entered the queue follows from the recorded wait."""
    if decision.queued_ms < QUEUED_MS_MIN:
        return None
    text = f"enters the queue of {decision.controller}"
    if decision.cause.kind != "unstated":
        text += f", woken by {cause_words(decision.cause, evidence)}"
    if decision.place is not None:
        text += f"; taken from the queue as {decision.place[0]} of {decision.place[1]}"
    return Entry(
        id=f"queue:{decision.id}",
        time=micro_timestamp(decision.time_ns - round(decision.queued_ms * 1e6)),
        source="queue",
        actor=words_for(ref),
        text=text,
        object=ref,
        generation=decision.subject.generation,
        ids={"decision": decision.id, **({"process": process} if process else {})},
        routine=decision.verdict in ROUTINE,
    )


def cause_words(cause: WakeCause, evidence: Evidence) -> str:
    """Without names of objects that the user may not read."""
    if not may_read(cause.resource, cause.namespace, evidence):
        return f"{cause.kind}: a {singular(cause.resource)} that you may not read changed"
    if not evidence.may_read_nodes:  # The detail may name a node.
        cause = msgspec.structs.replace(cause, detail="")
    return f"{cause.kind} {cause.text}".rstrip()


def may_read(resource: str, namespace: str, evidence: Evidence) -> bool:
    if resource == "nodes" and not evidence.may_read_nodes:
        return False
    return not namespace or evidence.readable is None or namespace in evidence.readable


def victims_words(victims: Sequence[str], evidence: Evidence) -> str:
    """'namespace/name: why' of each; pods of other tenants are a number."""
    names = victims_of(victims)
    shown = [name for name in names if may_read("pods", name.partition("/")[0], evidence)]
    others = len(names) - len(shown)
    return ", ".join([*shown, *([f"{others} pods that you may not read"] if others else [])])


# Rules that rejected nodes.


def _rules(record: Recorded, ref: ObjectRef, evidence: Evidence) -> Iterator[Entry]:
    """One entry for each rule, in the order of the decision: the decisive rule first."""
    decision = record.kept.decision
    if decision.verdict == "bind":
        return
    reasons = dict(_by_rule(record)) if evidence.may_read_nodes else {}
    for rejection in decision.rejected:
        if not rejection.rule:
            continue
        nodes, words = reasons.get(rejection.rule, ([], ""))
        yield Entry(
            id=f"{decision_id(decision.id)}/{rejection.rule}",
            time=micro_timestamp(decision.time_ns),
            source="decision",
            actor=f"rule {rejection.rule}",
            text=_rejects(rejection.nodes, nodes, words or rejection.reason, ref, evidence),
            object=ref,
            generation=decision.subject.generation,
            ids={"decision": decision.id},
        )


def _by_rule(record: Recorded) -> Iterator[tuple[str, tuple[list[str], str]]]:
    """Rule -> its nodes, and the reason of the first of them."""
    grouped: dict[str, tuple[list[str], str]] = {}
    for node, reason in sorted((record.nodes or {}).items()):
        if rule := record.rules.get(reason, ""):
            # The entry's actor is the rule.
            grouped.setdefault(rule, ([], reason.removeprefix(f"{rule}: ")))[0].append(node)
    yield from grouped.items()


def _rejects(count: int, nodes: list[str], reason: str, ref: ObjectRef, evidence: Evidence) -> str:
    because = f": {reason}" if reason else ""
    noun = "node" if count == 1 else "nodes"
    if not nodes:
        return f"rejects {count} {noun} for {words_for(ref)}{because}"
    zones = sorted({zone for node in nodes if (zone := _zone(node, evidence))})
    shown = ", ".join(nodes[:NAMES_SHOWN]) + (" …" if len(nodes) > NAMES_SHOWN else "")
    where = f" in {' and '.join(zones)}" if zones else ""
    return f"rejects {count} {noun}{where} for {words_for(ref)} ({shown}){because}"


def _zone(node: str, evidence: Evidence) -> str:
    obj = evidence.objects.get("nodes", Key("", node))
    return str(labels_of(obj).get(ZONE_LABEL, "")) if obj is not None else ""


# Outcomes.


def _outcome(
    number: int, outcome: Outcome, decision: Decision, ref: ObjectRef, *, is_own: bool
) -> tuple[Entry, Edge]:
    """Of a write: the edge to it, and an entry in case the audit log has none. Of the rest: an entry."""
    decided = decision_id(decision.id)
    written = _written(outcome.object, ref)
    if is_own:
        id_ = write_id(outcome.revision, written)
        text = f"writes {words_for(written)}{f': {outcome.message}' if outcome.message else ''}"
    else:
        id_ = f"outcome:{decision.id}:{number}"
        text = _failure(outcome, written)
        if (
            decision.verdict == "bind" and outcome.result == "committed"
        ):  # Kubernetes does not say at which revision.
            text = f"binds {words_for(written)} to {decision.node}"
    entry = Entry(
        id=id_,
        time=micro_timestamp(outcome.time_ns),
        source="decision",
        actor=decision.controller,
        text=text,
        object=written,
        revision=outcome.revision if id_.startswith("write:") else 0,
        ids={"decision": decision.id},
        routine=decision.verdict in ROUTINE or outcome.verb == STATUS,
    )
    return entry, Edge(decided, id_, "wrote" if entry.revision else "led to")


def _is_namesake(written: Subject | None, subject: ObjectRef) -> bool:
    if written is None or not written.uid or written.uid == subject.uid:
        return False
    named = (written.resource, written.namespace, written.name)
    return bool(subject.uid) and named == (subject.resource, subject.namespace, subject.name)


def _written(subject: Subject | None, ref: ObjectRef) -> ObjectRef:
    """An outcome without an object is about the decision's own."""
    if subject is None:
        return ref
    return ObjectRef(subject.resource, subject.namespace, subject.name, subject.uid)


def _failure(outcome: Outcome, written: ObjectRef) -> str:
    message = f": {outcome.message}" if outcome.message else ""
    check = f" ({outcome.check})" if outcome.check else ""
    words = {
        "conflict": "loses a race for",
        "rejected": "is refused a write of",
        "unknown": "does not know the outcome of its write of",
        "committed": "found nothing to change in",
        "settled": "reads that its write is done:",
    }[outcome.result]
    return f"{words} {words_for(written)}{check}{message}"
