"""Spans of a write that an API server committed, in the trace of the object that it wrote."""

from __future__ import annotations

from fathom.model.audit import AuditEntry
from fathom.model.decision import Subject
from fathom.model.traced import TracedWrite
from fathom.traces.of_decisions import subject_attributes
from fathom.traces.span import (
    AttributeValue,
    Span,
    SpanLink,
    client_link,
    decision_id,
    request_id,
    root_id,
    trace_id,
)


def write_spans(write: TracedWrite) -> tuple[Span, ...]:
    """The request; and, of a new object, the root of its trace, which links to the decision to create it."""
    entry = write.entry
    request = _request_span(write)
    if entry.verb != "create" or entry.subresource:
        return (request,)
    decided_by = (SpanLink(trace_id(write.owner), decision_id(entry.decision)),)
    root = Span(
        trace=request.trace,
        id=root_id(entry.uid),
        name=entry.resource,
        start_ns=write.began_ns,
        end_ns=write.ended_ns,
        attributes=subject_attributes(_subject(entry)),
        links=(*(decided_by if write.owner and entry.decision else ()), *client_link(write.traceparent)),
    )
    return root, request


def _request_span(write: TracedWrite) -> Span:
    entry = write.entry
    return Span(
        trace=trace_id(entry.uid),
        id=request_id(entry.uid, entry.revision),
        parent=decision_id(entry.decision) if entry.decision else root_id(entry.uid),
        name=f"{entry.verb} {entry.resource}{'/' if entry.subresource else ''}{entry.subresource}",
        kind="server",
        start_ns=write.began_ns,
        end_ns=write.ended_ns,
        attributes=_attributes(write),
        links=client_link(write.traceparent),
    )


def _attributes(write: TracedWrite) -> dict[str, AttributeValue]:
    entry = write.entry
    optional: dict[str, AttributeValue] = {
        "fathom.decision": entry.decision,
        "fathom.actor": entry.actor,
        "user_agent.original": entry.user_agent,
    }
    ready: dict[str, AttributeValue] = {} if write.ready is None else {"fathom.pod.ready": write.ready}
    return {
        "fathom.request": entry.request,  # Joins the span with the audit log.
        "fathom.revision": entry.revision,
        "http.response.status_code": entry.code,
        "enduser.id": entry.user,
        **subject_attributes(_subject(entry)),
        **{name: value for name, value in optional.items() if value},
        **ready,
    }


def _subject(entry: AuditEntry) -> Subject:
    return Subject(entry.resource, entry.namespace, entry.name, entry.uid)
