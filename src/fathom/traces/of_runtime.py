"""Spans of what a node's host did for a pod: it admitted the pod, started a container, probed it."""

from __future__ import annotations

from fathom.model.traced import TracedRuntimeCall
from fathom.traces.span import AttributeValue, Span, other_id, request_id, root_id, start_id, trace_id


def runtime_span(call: TracedRuntimeCall, *, is_retry: bool = False) -> Span:
    """`is_retry`: an earlier span is of the same start, which failed then."""
    return Span(
        trace=trace_id(call.uid),
        id=_id(call, is_retry=is_retry),
        parent=_parent(call),
        name=f"agent {call.call}",
        start_ns=call.began_ns,
        end_ns=call.ended_ns,
        attributes=_attributes(call),
        error=call.error,
    )


def _id(call: TracedRuntimeCall, *, is_retry: bool) -> int:
    if call.call == "start" and not is_retry:
        return start_id(call.uid, call.container, call.attempt)
    return other_id(call.call, call.uid, call.container, str(call.attempt), call.probe, str(call.began_ns))


def _parent(call: TracedRuntimeCall) -> int:
    """Of a probe the start of its container; else the write of the pod that the agent acted on, such as its
    binding."""
    if call.call == "probe":
        return start_id(call.uid, call.container, call.attempt)
    return request_id(call.uid, call.revision) if call.revision else root_id(call.uid)


def _attributes(call: TracedRuntimeCall) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "k8s.node.name": call.node,
        "k8s.pod.uid": call.uid,
        "k8s.container.name": call.container,
        "fathom.probe": call.probe,
    }
    if call.container:
        attributes["k8s.container.restart_count"] = call.attempt
    return {name: value for name, value in attributes.items() if value != ""}
