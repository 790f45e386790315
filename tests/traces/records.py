"""Short builders of the records that spans are made of, and a collector that receives spans."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fathom.model.audit import AuditEntry
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, Outcome, Subject
from fathom.model.traced import TracedRuntimeCall, TracedWrite

POD_UID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OWNER_UID = "7d444840-9dc0-41d1-8245-5ffdce74fad2"
POD = Subject("pods", "default", "web-1", POD_UID, 1)
OWNER = Subject("replicasets.apps", "default", "web", OWNER_UID, 3)
SECOND = 1_000_000_000


def decision(id_: str = "s-1", **fields: Any) -> Decision:
    """The scheduler bound the pod at second 10, after half a second in the queue."""
    known: dict[str, Any] = {
        "time_ns": 10 * SECOND,
        "controller": "scheduler",
        "subject": POD,
        "verdict": "bind",
        "queued_ms": 500.0,
        "cause": WakeCause("event", "", "pods", "default", "web-1", 41),
        "node": "node-1",
    }
    return Decision(id=id_, **{**known, **fields})


def outcome(id_: str = "s-1", **fields: Any) -> Outcome:
    known: dict[str, Any] = {"time_ns": 11 * SECOND, "result": "committed", "revision": 42, "object": POD}
    return Outcome(id=id_, **{**known, **fields})


def write(
    *, traceparent: str = "", owner: str = "", ready: bool | None = False, **fields: Any
) -> TracedWrite:
    """The pod's creation by the decision `r-1`."""
    known: dict[str, Any] = {
        "id": "a-1",
        "request": "a-1",
        "time": "1970-01-01T00:00:09.000000Z",
        "user": "system:fathom:controllers",
        "verb": "create",
        "resource": "pods",
        "namespace": "default",
        "name": "web-1",
        "uid": POD_UID,
        "code": 201,
        "decision": "r-1",
        "revision": 41,
    }
    entry = AuditEntry(**{**known, **fields})
    times = {"began_ns": 8 * SECOND, "ended_ns": 9 * SECOND}
    return TracedWrite(entry=entry, traceparent=traceparent, owner=owner, ready=ready, **times)


def call(kind: Any = "start", **fields: Any) -> TracedRuntimeCall:
    known: dict[str, Any] = {
        "node": "node-1",
        "uid": POD_UID,
        "began_ns": 12 * SECOND,
        "ended_ns": 13 * SECOND,
        "container": "web",
        "revision": 0 if kind == "probe" else 42,
    }
    return TracedRuntimeCall(call=kind, **{**known, **fields})


class ReceivedSpan:
    """One span as a collector has it, with plain values."""

    def __init__(self, service: str, resource: dict[str, Any], span: Any) -> None:
        self.service = service
        self.resource = resource
        self.trace = span.trace_id.hex()
        self.id = span.span_id.hex()
        self.parent = span.parent_span_id.hex()
        self.name = span.name
        self.start_ns, self.end_ns = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes = plain(span.attributes)
        self.links = [(link.trace_id.hex(), link.span_id.hex()) for link in span.links]
        self.error = span.status.message

    def __repr__(self) -> str:
        return f"{self.service}: {self.name} {self.id} <- {self.parent} {self.attributes}"


def plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


class Collector:
    """Receives OTLP over HTTP, as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.url = ""
        self.status = 200

    def take(self, body: bytes) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = plain(group.resource.attributes)
            for scope in group.scope_spans:
                self.spans += [ReceivedSpan(resource["service.name"], resource, span) for span in scope.spans]

    def of_trace(self, uid: str) -> list[ReceivedSpan]:
        return [span for span in list(self.spans) if span.trace == uid.replace("-", "")]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces" and collector.status == 200:
                collector.take(body)
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
