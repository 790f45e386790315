"""Metrics of controllers: passes and queues by controller, the breaker, the lease, requests by code.

Metrics that client-go has too carry client-go's names (`workqueue_*`, `rest_client_requests_total`,
`leader_election_master_status`), so that dashboards for Kubernetes find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from fathom.control.breaker import Breaker
from fathom.control.lease import LeaseStatus
from fathom.control.loop import Loop, Passed
from fathom.metrics.families import Family, counter, counters, gauge
from fathom.metrics.numbers import Durations, LabeledCounts
from fathom.metrics.registry import Part
from fathom.seams.outside import Clock

STATES = ("closed", "half-open", "open")


class QueueNumbers:
    """Metrics of one controller's work queue: see `queue.QueueMetrics`."""

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.overflows = 0
        self.given_up = LabeledCounts("reason", series_max=50)
        self.waits = Durations()

    def added(self, depth: int) -> None:
        self.adds += 1

    def taken(self, depth: int, waited_s: float) -> None:
        self.waits.observe(waited_s)

    def retried(self, reason: str, delay_s: float) -> None:
        self.retries += 1

    def gave_up(self, reason: str) -> None:
        self.given_up.add(reason)

    def overflowed(self) -> None:
        self.overflows += 1


class LoopNumbers:
    """Metrics of all controllers of a process: see `loop.LoopObserver`. They outlive terms of leadership."""

    def __init__(self, controllers: Iterable[str]) -> None:
        self.queues = {name: QueueNumbers() for name in controllers}
        self.work = {name: Durations() for name in self.queues}
        self.passes = LabeledCounts("controller", "result")
        self.failures = LabeledCounts("controller", "reason")

    def passed(self, passed: Passed) -> None:
        self.work[passed.controller].observe(passed.took_s)
        self.passes.add(passed.controller, passed.result)
        if passed.reason:
            self.failures.add(passed.controller, passed.reason)


def measure_loops(
    metrics: Part, numbers: LoopNumbers, loops: Callable[[], Sequence[Loop]], clock: Clock
) -> None:
    metrics.register("loops", lambda: loop_families(numbers, loops(), clock, metrics.labels))
    metrics.describe("loops", lambda about: {loop.name: _loop_state(loop) for loop in loops()})


# Of keys that keep failing, so many are described.
TROUBLES_SHOWN = 100


def _loop_state(loop: Loop) -> dict[str, Any]:
    troubles = list(loop.queue.troubles.items())[:TROUBLES_SHOWN]
    return {
        "waiting": len(loop.queue),
        "inHand": ["/".join(taken.key) for taken in loop.queue.in_hand],
        "troubles": {
            "/".join(key): {
                "reason": trouble.reason,
                "message": trouble.message,
                "attempts": trouble.attempts,
                "givenUp": trouble.next_ns is None,
            }
            for key, trouble in troubles
        },
    }


def loop_families(
    numbers: LoopNumbers, loops: Sequence[Loop], clock: Clock, labels: dict[str, str]
) -> Iterable[Family]:
    yield from _queues(numbers, labels)
    yield from _running(loops, clock.monotonic_ns(), labels)
    yield counters(
        "fathom_controller_reconciles_total",
        "Passes over an object, by their result.",
        numbers.passes,
        labels,
    )
    yield counters(
        "fathom_controller_reconcile_failures_total",
        "Passes that failed or had to wait, by reason.",
        numbers.failures,
        labels,
    )


def _queues(numbers: LoopNumbers, labels: dict[str, str]) -> Iterable[Family]:
    adds = Family("workqueue_adds_total", "counter", "Keys that were added to the queue.")
    retries = Family("workqueue_retries_total", "counter", "Keys to be retried after a backoff.")
    waits = Family("workqueue_queue_duration_seconds", "histogram", "How long keys waited in the queue.")
    work = Family("workqueue_work_duration_seconds", "histogram", "How long a pass over a key took.")
    given_up = Family("fathom_workqueue_given_up_total", "counter", "Keys given up until they change.")
    overflows = Family(
        "fathom_workqueue_overflows_total", "counter", "Keys not added because the queue was full."
    )
    for name, queue in numbers.queues.items():
        named = {**labels, "name": name}
        adds.add(queue.adds, named)
        retries.add(queue.retries, named)
        overflows.add(queue.overflows, named)
        waits.add_durations(queue.waits, named)
        work.add_durations(numbers.work[name], named)
        given_up.samples += counters(given_up.name, "", queue.given_up, named).samples
    yield from (adds, retries, waits, work, given_up, overflows)


def _running(loops: Sequence[Loop], now_ns: int, labels: dict[str, str]) -> Iterable[Family]:
    """Metrics of the loops that run now: there are none while another process leads."""
    depth = Family("workqueue_depth", "gauge", "Keys that wait in the queue.")
    oldest = Family("fathom_workqueue_oldest_seconds", "gauge", "How long the oldest key has waited.")
    in_hand = Family("fathom_workqueue_in_progress", "gauge", "Keys in progress.")
    troubled = Family("fathom_workqueue_failing", "gauge", "Keys that failed and have not succeeded since.")
    for loop in loops:
        named = {**labels, "name": loop.name}
        since_ns = loop.queue.waiting_since_ns
        depth.add(len(loop.queue), named)
        oldest.add(0 if since_ns is None else max(0, now_ns - since_ns) / 1e9, named)
        in_hand.add(len(loop.queue.in_hand), named)
        troubled.add(len(loop.queue.troubles), named)
    yield from (depth, oldest, in_hand, troubled)


class Measured(Protocol):
    """What of an API connection is measured."""

    breaker: Breaker
    lease_status: LeaseStatus | None
    answers: LabeledCounts


def measure_station(metrics: Part, station: Measured) -> None:
    metrics.register("station", lambda: station_families(station, metrics.labels))
    metrics.describe("connection", lambda about: connection_state(station))


def connection_state(station: Measured) -> dict[str, Any]:
    """Whether the process leads, and why it sends no requests, if it sends none."""
    lease_status, breaker = station.lease_status, station.breaker.view
    shut = "" if breaker.state == "closed" else f"{breaker.state}: {breaker.last_failure}"
    if lease_status is None:
        return {"leads": None, "lease": "", "breaker": shut}
    return {
        "leads": lease_status.state == "leading",
        "lease": "/".join(lease_status.lease),
        "breaker": shut,
        "leaseStatus": {"state": lease_status.state, "epoch": lease_status.epoch, "why": lease_status.why},
    }


def station_families(station: Measured, labels: dict[str, str]) -> Iterable[Family]:
    yield counters(
        "rest_client_requests_total", "Requests by the answer's code; 0: no answer.", station.answers, labels
    )
    view = station.breaker.view
    state = Family("fathom_breaker_state", "gauge", "1 for the circuit breaker's state, 0 for the others.")
    for name in STATES:
        state.add(int(view.state == name), {**labels, "state": name})
    yield state
    yield counter("fathom_breaker_opened_total", "How often the circuit breaker opened.", view.opened, labels)
    refused = "Requests not sent because the circuit breaker was open."
    yield counter("fathom_breaker_refused_requests_total", refused, view.refused, labels)
    if (lease_status := station.lease_status) is not None:
        named = {**labels, "name": lease_status.lease.name}
        leads = int(lease_status.state == "leading")
        yield gauge("leader_election_master_status", "1 while this process holds the lease.", leads, named)
        yield gauge(
            "fathom_lease_epoch",
            "Epoch of the last term in which this process led.",
            lease_status.epoch or 0,
            named,
        )
