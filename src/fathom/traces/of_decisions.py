"""Spans of a decision, and of each write that carries it out. Pure, given what was recorded before."""

from __future__ import annotations

from typing import Protocol

import msgspec

from fathom.model.cause import RUNTIME, WakeCause
from fathom.model.decision import Decision, Outcome, Subject
from fathom.traces.span import (
    AttributeValue,
    Span,
    SpanLink,
    decision_id,
    other_id,
    request_id,
    root_id,
    trace_id,
    write_id,
)

MESSAGE_CHARS_MAX = 1000
FAILED = frozenset({"conflict", "rejected", "unknown"})
FAILED_VERDICTS = frozenset({"died"})


class DecisionOnTrace(msgspec.Struct, frozen=True):
    """What later spans need to know of a decision."""

    subject: Subject
    controller: str
    time_ns: int


class EarlierRecords(Protocol):
    """What this process recorded before, as far as it is remembered."""

    def decision(self, id_: str) -> DecisionOnTrace | None: ...

    def uid(self, resource: str, namespace: str, name: str) -> str:
        """'' if it is not known."""
        ...

    def runtime_span(self, uid: str) -> int:
        """The last span about the pod's containers; 0 if there is none."""
        ...

    def is_first(self, trace: int, span: int) -> bool:
        """Whether no earlier span of the trace has this id. Asked once for each span."""
        ...


def decision_span(decision: Decision, earlier: EarlierRecords) -> Span:
    """From the moment its object was queued to the decision."""
    uid = trace_key(decision.id, decision.subject)
    parent, links = _cause_of(decision.cause, decision.subject, earlier)
    died = decision.verdict in FAILED_VERDICTS
    return Span(
        trace=trace_id(uid),
        id=decision_id(decision.id),
        parent=parent if decision.subject.uid else 0,
        name=f"{decision.controller} {decision.verdict}",
        start_ns=decision.time_ns - int(decision.queued_ms * 1e6),
        end_ns=decision.time_ns,
        attributes=_decision_attributes(decision),
        links=links,
        error=decision.message[:MESSAGE_CHARS_MAX] if died else "",
    )


def outcome_span(outcome: Outcome, earlier: EarlierRecords) -> Span | None:
    """From the decision to its outcome, in the trace of the object that was written: there, it stands for the
    decision, if that is about another object. None where nothing was sent, and where the decision is not
    remembered."""
    decision = earlier.decision(outcome.id)
    if decision is None or outcome.result == "held":
        return None
    written = outcome.object or decision.subject
    subject_key = trace_key(outcome.id, decision.subject)
    uid = written.uid or subject_key
    is_own = uid == subject_key
    trace = trace_id(uid)
    span = write_id(outcome.id) if is_own else decision_id(outcome.id)
    if not earlier.is_first(trace, span):
        span = other_id("write", outcome.id, uid, str(outcome.time_ns))
    return Span(
        trace=trace,
        id=span,
        parent=decision_id(outcome.id) if is_own else root_id(uid),
        name=f"write {written.resource}",
        kind="client",
        start_ns=min(decision.time_ns, outcome.time_ns),
        end_ns=outcome.time_ns,
        attributes=_outcome_attributes(outcome, decision, written),
        links=() if is_own else (SpanLink(trace_id(subject_key), decision_id(outcome.id)),),
        error=(outcome.message or outcome.check or outcome.result) if outcome.result in FAILED else "",
    )


def trace_key(id_: str, subject: Subject) -> str:
    """The UID that the decision's trace is named by. A decision about what does not exist yet has a trace of
    its own."""
    return subject.uid or id_


def subject_attributes(subject: Subject) -> dict[str, AttributeValue]:
    """By OpenTelemetry's names where it has some."""
    attributes: dict[str, AttributeValue] = {
        "fathom.resource": subject.resource,
        "fathom.name": subject.name,
        "fathom.uid": subject.uid,
        "k8s.namespace.name": subject.namespace,
    }
    if subject.resource == "pods":
        attributes |= {"k8s.pod.name": subject.name, "k8s.pod.uid": subject.uid}
    return {name: value for name, value in attributes.items() if value != ""}


def _cause_of(
    cause: WakeCause, subject: Subject, earlier: EarlierRecords
) -> tuple[int, tuple[SpanLink, ...]]:
    """The parent: the write whose event woke the object, or the decision that this one goes on from; else the
    object's creation. A link, if these belong to another object."""
    root = root_id(subject.uid)
    if cause.decision and (before := earlier.decision(cause.decision)) is not None:
        span = decision_id(cause.decision)
        if before.subject.uid == subject.uid:
            return span, ()
        return root, (SpanLink(trace_id(trace_key(cause.decision, before.subject)), span),)
    if cause.kind == "event" and cause.event == RUNTIME:
        return earlier.runtime_span(subject.uid) or root, ()
    if cause.kind != "event" or not cause.revision:
        return root, ()
    if (cause.resource, cause.namespace, cause.name) == (subject.resource, subject.namespace, subject.name):
        return request_id(subject.uid, cause.revision), ()
    uid = earlier.uid(cause.resource, cause.namespace, cause.name)
    return root, (SpanLink(trace_id(uid), request_id(uid, cause.revision)),) if uid else ()


def _decision_attributes(decision: Decision) -> dict[str, AttributeValue]:
    optional: dict[str, AttributeValue] = {
        "fathom.cause": f"{decision.cause.kind} {decision.cause.text}".rstrip(),
        "fathom.message": decision.message[:MESSAGE_CHARS_MAX],
        "fathom.need": decision.need,
        "k8s.node.name": decision.node,
    }
    return {
        "fathom.decision": decision.id,
        "fathom.controller": decision.controller,
        "fathom.verdict": decision.verdict,
        "fathom.attempt": decision.attempt,
        "fathom.queued_ms": decision.queued_ms,
        "fathom.generation": decision.subject.generation,
        **subject_attributes(decision.subject),
        **{name: value for name, value in optional.items() if value},
    }


def _outcome_attributes(
    outcome: Outcome, decision: DecisionOnTrace, written: Subject
) -> dict[str, AttributeValue]:
    optional: dict[str, AttributeValue] = {
        "fathom.revision": outcome.revision,
        "fathom.check": outcome.check,
        "fathom.message": outcome.message[:MESSAGE_CHARS_MAX],
    }
    return {
        "fathom.decision": outcome.id,
        "fathom.controller": decision.controller,
        "fathom.result": outcome.result,
        **subject_attributes(written),
        **{name: value for name, value in optional.items() if value},
    }
