"""Makes spans of records: pure but for a bounded memory of earlier records of the same process."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from fathom.model.decision import Decision, Outcome, Subject
from fathom.model.traced import TracedRecord, TracedRuntimeCall, TracedWrite
from fathom.traces.of_decisions import DecisionOnTrace, decision_span, outcome_span
from fathom.traces.of_runtime import runtime_span
from fathom.traces.of_writes import write_spans
from fathom.traces.span import Span, start_id, trace_id

K = TypeVar("K")
V = TypeVar("V")

# Some megabytes. An older decision's outcome has no span, and a link to it is left out.
REMEMBERED_MAX = 20_000
# They are renewed and counted up every few seconds, and decide nothing.
NOT_TRACED = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io"})


class RecentEntries(Generic[K, V]):
    """A map that forgets what was put first."""

    def __init__(self, entries_max: int = REMEMBERED_MAX) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._max = entries_max

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._max:
            self._entries.popitem(last=False)


class SpanMaker:
    """One for each process; not for several threads. It is the `EarlierRecords` of its own spans."""

    def __init__(self) -> None:
        self._decisions: RecentEntries[str, DecisionOnTrace] = RecentEntries()
        self._uids: RecentEntries[tuple[str, str, str], str] = RecentEntries()
        self._runtime_spans: RecentEntries[str, int] = RecentEntries()
        self._probes: RecentEntries[tuple[str, str, int, str], str] = RecentEntries()
        self._ids: RecentEntries[tuple[int, int], bool] = RecentEntries()

    def spans_of(self, record: TracedRecord) -> tuple[Span, ...]:
        match record:
            case Decision():
                return (self._decided(record),)
            case Outcome():
                return self._concluded(record)
            case TracedWrite():
                entry = record.entry
                traced = entry.wrote and entry.uid and entry.resource not in NOT_TRACED
                return write_spans(record) if traced else ()
            case TracedRuntimeCall():
                return self._called(record)

    # What was recorded before: see `EarlierRecords`.

    def decision(self, id_: str) -> DecisionOnTrace | None:
        return self._decisions.get(id_)

    def uid(self, resource: str, namespace: str, name: str) -> str:
        return self._uids.get((resource, namespace, name)) or ""

    def runtime_span(self, uid: str) -> int:
        return self._runtime_spans.get(uid) or 0

    def is_first(self, trace: int, span: int) -> bool:
        if self._ids.get((trace, span)):
            return False
        self._ids.put((trace, span), True)
        return True

    # Records.

    def _decided(self, decision: Decision) -> Span:
        span = decision_span(decision, self)
        kept = DecisionOnTrace(decision.subject, decision.controller, decision.time_ns)
        self._decisions.put(decision.id, kept)
        self._name(decision.subject)
        return span

    def _concluded(self, outcome: Outcome) -> tuple[Span, ...]:
        if outcome.object is not None:
            self._name(outcome.object)
        span = outcome_span(outcome, self)
        return () if span is None else (span,)

    def _called(self, call: TracedRuntimeCall) -> tuple[Span, ...]:
        """A probe runs every few seconds: it has a span when its result is another than before."""
        if call.call == "probe":
            probe, result = (call.uid, call.container, call.attempt, call.probe), call.error or "passed"
            if self._probes.get(probe) == result:
                return ()
            self._probes.put(probe, result)
        trace, start = trace_id(call.uid), start_id(call.uid, call.container, call.attempt)
        span = runtime_span(call, is_retry=call.call == "start" and not self.is_first(trace, start))
        self._runtime_spans.put(call.uid, span.id)
        return (span,)

    def _name(self, subject: Subject) -> None:
        if subject.uid:
            self._uids.put((subject.resource, subject.namespace, subject.name), subject.uid)
