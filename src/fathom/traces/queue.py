"""The queue between a process and its collector: bounded, emptied by a thread, and never waited for.

add ──> queue (RECORDS_MAX) ──thread, every EVERY_S──> spans ──> send     a full queue drops, and counts
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from fathom.metrics.families import Family, counter
from fathom.model.decision import Decision, Journal, Outcome, Table
from fathom.model.traced import SpanSink, TracedRecord
from fathom.seams.log import Log
from fathom.traces.maker import SpanMaker
from fathom.traces.span import Span, other_id

RECORDS_MAX = 20_000  # At 2,000 bindings a second, what comes in while one attempt to send times out (10 s).
BATCH_MAX = 512  # As in OpenTelemetry's own batch processor.
EVERY_S = 1.0
CLOSE_S = 2.0  # Time to send what is left when the process ends.
TO_64_BITS = 1 << 64


class SpanSender(Protocol):
    def send(self, spans: Sequence[tuple[str, Span]]) -> bool: ...

    def shutdown(self) -> None: ...


class SpanQueue:
    """`sender` is made by the thread: importing OpenTelemetry must not delay a start."""

    def __init__(self, sender: Callable[[], SpanSender], log: Log, *, ratio: float = 1.0) -> None:
        self.exported = 0  # Spans that the collector took.
        self.failed = 0  # Spans that it did not take.
        self.dropped = 0  # Records for which the queue had no room.
        self._records: deque[tuple[str, TracedRecord]] = deque()
        self._make_sender = sender
        self._sender: SpanSender | None = None
        self._log = log
        self._threshold = int(ratio * TO_64_BITS)
        self._maker = SpanMaker()
        self._closing = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def add(self, service: str, record: TracedRecord) -> None:
        if len(self._records) >= RECORDS_MAX:
            self.dropped += 1
        else:
            self._records.append((service, record))

    def of(self, service: str) -> ServiceSpans:
        """The sink of one part of the process."""
        return ServiceSpans(self, service)

    def close(self) -> None:
        """Send what is left, for at most CLOSE_S."""
        self._closing.set()
        self._thread.join(CLOSE_S)
        if self._sender is not None:
            self._sender.shutdown()

    def collect(self) -> Iterable[Family]:
        """Metrics: see `metrics.registry`."""
        yield counter("fathom_spans_exported_total", "Spans that the collector took.", self.exported)
        yield counter("fathom_spans_failed_total", "Spans that the collector did not take.", self.failed)
        dropped = "Records without a span, because the queue of the exporter was full."
        yield counter("fathom_span_records_dropped_total", dropped, self.dropped)

    # The thread.

    def _run(self) -> None:
        try:
            self._sender = self._make_sender()
            while not self._closing.wait(EVERY_S):
                self._send_all()
            self._send_all()
        except Exception as error:  # Traces must not end the process; without them it goes on.
            self._log.error("traces have stopped", error=repr(error))

    def _send_all(self) -> None:
        """Sends what is in the queue now, in batches."""
        for _ in range(1 + len(self._records) // BATCH_MAX):
            spans = self._next_spans()
            if spans:
                self._send(spans)

    def _next_spans(self) -> list[tuple[str, Span]]:
        spans: list[tuple[str, Span]] = []
        for _ in range(min(len(self._records), BATCH_MAX)):
            service, record = self._records.popleft()
            spans += [(service, span) for span in self._maker.spans_of(record) if self._is_sampled(span)]
        return spans

    def _send(self, spans: list[tuple[str, Span]]) -> None:
        assert self._sender is not None
        taken = self._sender.send(spans)
        if taken:
            self.exported += len(spans)
        else:
            self.failed += len(spans)
        if taken == self._is_failing:  # One line when it begins and one when it is over.
            self._is_failing = not taken
            self._log.warn("spans are exported again" if taken else "the collector does not take spans",
                           failed=self.failed)  # fmt: skip

    def _is_sampled(self, span: Span) -> bool:
        """By a hash of the trace id: a UID's own bits are not all random."""
        return self._threshold >= TO_64_BITS or other_id("sample", str(span.trace)) < self._threshold


class ServiceSpans:
    """A SpanSink for one part of a process."""

    def __init__(self, queue: SpanQueue, service: str) -> None:
        self._queue = queue
        self._service = service

    def add(self, record: TracedRecord) -> None:
        self._queue.add(self._service, record)


class TracedJournal:
    """A journal whose decisions and outcomes also become spans."""

    def __init__(self, inner: Journal, spans: SpanSink) -> None:
        self._inner = inner
        self._spans = spans

    def decided(self, decision: Decision) -> None:
        self._inner.decided(decision)
        self._spans.add(decision)

    def concluded(self, outcome: Outcome) -> None:
        self._inner.concluded(outcome)
        self._spans.add(outcome)

    def tabled(self, table: Table) -> None:
        self._inner.tabled(table)
