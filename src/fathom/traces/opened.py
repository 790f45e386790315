"""Opens the traces of a process, if its environment asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fathom.model.decision import Journal
from fathom.seams.log import Log
from fathom.traces.queue import SpanQueue, SpanSender, TracedJournal
from fathom.traces.settings import HOW_TO_INSTALL, is_installed, trace_settings


def open_traces(environ: Mapping[str, str], log: Log) -> SpanQueue | None:
    """None: traces are off, or cannot be on, which is logged. Whoever opens closes."""
    settings = trace_settings(environ)
    if settings is None:
        return None
    if not is_installed():  # The variable may be meant for other programs: that must not stop a cluster.
        log.warn("traces", warning=f"spans are not sent to {settings.endpoint}: {HOW_TO_INSTALL}")
        return None
    return SpanQueue(_otlp_sender, log, ratio=settings.ratio)


@contextmanager
def opened_traces(environ: Mapping[str, str], log: Log) -> Iterator[SpanQueue | None]:
    traces = open_traces(environ, log)
    try:
        yield traces
    finally:
        if traces is not None:
            traces.close()


def traced(journal: Journal, traces: SpanQueue | None, service: str) -> Journal:
    """The journal itself where traces are off."""
    return journal if traces is None else TracedJournal(journal, traces.of(service))


def _otlp_sender() -> SpanSender:
    from fathom.traces.otlp import OtlpSender  # noqa: PLC0415  # Only with traces on.

    return OtlpSender()
