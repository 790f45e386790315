"""Sends spans by OTLP over HTTP, with OpenTelemetry's SDK. The only file that imports it.

The SDK's tracer is not used: it takes ids from a random generator and times from a clock. Finished spans go
straight to its exporter.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from fathom import __version__
from fathom.traces.span import Span

KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}
SAMPLED = TraceFlags(TraceFlags.SAMPLED)
SCOPE = InstrumentationScope("fathom", __version__)


class OtlpSender:
    """For one thread, except for `shutdown`."""

    def __init__(self) -> None:
        """Reads the standard environment."""
        # Its messages are free text on stderr, where our logs are JSON; we count and log failures ourselves.
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        self._exporter = OTLPSpanExporter()
        self._resources: dict[str, Resource] = {}  # By service.

    def send(self, spans: Sequence[tuple[str, Span]]) -> bool:
        """Send spans, each with the service that it is of. Whether the collector took them. May take as long
        as OTEL_EXPORTER_OTLP_TIMEOUT says, by default 10 s."""
        readable = [readable_span(span, self._resource(service)) for service, span in spans]
        return self._exporter.export(readable) is SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """A `send` under way gives up waiting for the collector."""
        self._exporter.shutdown()

    def _resource(self, service: str) -> Resource:
        """With OTEL_RESOURCE_ATTRIBUTES, but for the service: that one is ours to say."""
        if service not in self._resources:
            named = {SERVICE_NAME: f"fathom-{service}", "service.version": __version__}
            self._resources[service] = Resource.create().merge(Resource(named))
        return self._resources[service]


def readable_span(span: Span, resource: Resource) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace, span.id),
        parent=_context(span.trace, span.parent) if span.parent else None,
        resource=resource,
        attributes=span.attributes,
        links=[Link(_context(link.trace, link.span)) for link in span.links],
        kind=KINDS[span.kind],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=SCOPE,
    )


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=True, trace_flags=SAMPLED)
