"""Metrics of the scheduler. Metrics that kube-scheduler has keep its names, so that its dashboards and alerts
work; metrics that only fathom has begin with `fathom_scheduler_`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fathom.metrics.families import Family, counter, gauge
from fathom.metrics.registry import Part
from fathom.schedule.loop.queue import QueueEntry
from fathom.schedule.loop.queue_state import queue_state
from fathom.schedule.loop.state import SchedulerState

# kube-scheduler's names of the queues; in-hand pods are being decided or bound.
QUEUES = {
    "active": "active",
    "backoff": "backoff",
    "parked": "unschedulable",
    "gated": "gated",
    "in-hand": "binding",
}
# Why a pod is pending, where no rule has rejected it.
REASONS = {"active": "Queued", "backoff": "Backoff", "gated": "SchedulingGated", "in-hand": "Binding"}
NO_RULE = "NoNodes"  # Of a pod that parked though no rule rejected a node: there is no node at all.


def measure_scheduler(metrics: Part, state: SchedulerState) -> None:
    metrics.register("scheduler", lambda: scheduler_families(state))
    metrics.describe("queue", lambda about: queue_state(state.queue, about, state.clock.monotonic_ns()))


def scheduler_families(state: SchedulerState) -> Iterable[Family]:
    """Looks at every pending pod once, and only when the metrics are scraped."""
    profile = {"profile": state.rules.names[0]}
    entries = [entry for uid in state.waiting if (entry := state.queue.entry(uid)) is not None]
    yield from _pending(state, entries, profile)
    yield from _attempts(state, profile)
    yield from _bindings(state)


def _pending(state: SchedulerState, entries: list[QueueEntry], profile: dict[str, str]) -> Iterable[Family]:
    now_ns = state.clock.monotonic_ns()
    by_state = Counter[str](entry.state for entry in entries)
    oldest: dict[str, int] = {}
    reasons, rules = Counter[str](dict.fromkeys(REASONS.values(), 0)), Counter[str]()
    for entry in entries:
        oldest[entry.state] = min(oldest.get(entry.state, now_ns), entry.added_ns)
        rejecting = state.rejecting.get(entry.pod.uid, ()) if entry.state == "parked" else ()
        rules.update(rejecting)
        reasons[REASONS.get(entry.state) or (rejecting[0] if rejecting else NO_RULE)] += 1
    pending = Family("scheduler_pending_pods", "gauge", "Pods without a node, by the queue they are in.")
    ages = Family("fathom_scheduler_oldest_pending_seconds", "gauge", "How long the oldest pod has waited.")
    for name, queue in QUEUES.items():
        pending.add(by_state[name], {"queue": queue})
        ages.add(max(0, now_ns - oldest.get(name, now_ns)) / 1e9, {"queue": queue})
    by_reason = Family("fathom_scheduler_pending_pods", "gauge", "Pods without a node; each once, by reason.")
    for reason, count in sorted(reasons.items()):
        by_reason.add(count, {"reason": reason})
    by_rule = Family(
        "scheduler_unschedulable_pods",
        "gauge",
        "Pods that no node takes; once for each rule that rejects nodes.",
    )
    for rule, count in sorted(rules.items()):
        by_rule.add(count, {"plugin": rule, **profile})
    yield from (pending, ages, by_reason, by_rule)


def _attempts(state: SchedulerState, profile: dict[str, str]) -> Iterable[Family]:
    counts = state.counts
    attempts = Family("scheduler_schedule_attempts_total", "counter", "Attempts to place a pod, by result.")
    failed = sum(counts.refused.values()) + counts.unknown
    for result, count in (
        ("scheduled", counts.bound),
        ("unschedulable", counts.unschedulable),
        ("error", failed),
    ):
        attempts.add(count, {"result": result, **profile})
    yield attempts
    yield counter(
        "fathom_scheduler_attempts_total",
        "Decisions about pods; a retried pod counts again.",
        counts.attempts,
    )
    yield counter("fathom_scheduler_batches_total", "Batches of pods decided together.", counts.batches)
    victims = "Pods evicted for pods of higher priority."
    yield counter("fathom_scheduler_preemption_victims_total", victims, counts.preempted)
    took = Family(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "histogram",
        "Time from when a pod was queued until it was bound.",
    )
    yield took.add_durations(counts.bound_after)


def _bindings(state: SchedulerState) -> Iterable[Family]:
    counts = state.counts
    refused = Family(
        "fathom_scheduler_binding_refusals_total",
        "counter",
        "Bindings that the API server refused, by check.",
    )
    for check, count in counts.refused.items():
        refused.add(count, {"check": check})
    yield refused
    unknown = "Bindings without an answer; the pod is read until the outcome is known."
    yield counter("fathom_scheduler_bindings_unknown_total", unknown, counts.unknown)
    yield gauge("fathom_scheduler_bindings_in_flight", "Bindings not yet seen in the cache.", len(state.sent))
    yield gauge("fathom_scheduler_nodes", "Nodes that the scheduler knows.", len(state.known.table))
    about = "Nodes whose last binding was refused; skipped until the caches catch up."
    yield gauge("fathom_scheduler_refused_nodes", about, len(state.refused_nodes.nodes))
