"""Metrics of caches: their age, relists by cause, watches that broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fathom.cache.caches import Caches
from fathom.cache.observer import CacheCounts, CacheObserver, SeveralObservers
from fathom.metrics.families import Family
from fathom.metrics.registry import Part
from fathom.model.decision import SeenVersions
from fathom.seams.outside import Clock


def counted(metrics: Part, observer: CacheObserver | None) -> tuple[CacheObserver | None, CacheCounts]:
    """The observer to give to caches: where metrics are measured, it counts as well."""
    counts = CacheCounts()
    if not metrics.enabled:
        return observer, counts
    return (counts if observer is None else SeveralObservers(counts, observer)), counts


def measure_caches(metrics: Part, caches: Caches, counts: CacheCounts, clock: Clock) -> None:
    metrics.register("caches", lambda: cache_families(caches, counts, clock, metrics.labels))
    metrics.describe("caches", lambda about: seen_versions(caches, clock))
    metrics.describe("received", lambda about: received_versions(caches, clock))


def seen_versions(caches: Caches, clock: Clock) -> dict[str, SeenVersions]:
    """How fresh each kind is now."""
    snapshot = caches.snapshot_at(clock.monotonic_ns() / 1e9)
    return {kind: snapshot.seen(kind) for kind in caches.kinds}


def received_versions(caches: Caches, clock: Clock) -> dict[str, list[tuple[int, int]]]:
    """When changes of kinds that steer decisions arrived: kind -> (revision, time in ns), oldest first."""
    ahead_ns = clock.now_ns() - clock.monotonic_ns()
    return {
        kind: [(each.revision, ahead_ns + round(each.at_s * 1e9)) for each in received]
        for kind, received in caches.received.by_kind.items()
    }


def cache_families(
    caches: Caches, counts: CacheCounts, clock: Clock, labels: Mapping[str, str]
) -> Iterable[Family]:
    now_s = clock.monotonic_ns() / 1e9
    ages = Family(
        "fathom_cache_age_seconds", "gauge", "Since the cache was last known to be as new as the API server."
    )
    objects = Family("fathom_cache_objects", "gauge", "Objects in the cache.")
    for kind in caches.kinds:
        ages.add(max(0.0, now_s - caches.heard_s(kind)), {**labels, "kind": kind})
        objects.add(caches.size(kind), {**labels, "kind": kind})
    lags = Family(
        "fathom_cache_echo_seconds", "gauge", "From the answer to our last write until its event arrived."
    )
    for kind, lag_s in counts.lag_s.items():
        lags.add(lag_s, {**labels, "kind": kind})
    yield from (ages, objects, lags)
    yield from _counters(counts, labels)


def _counters(counts: CacheCounts, labels: Mapping[str, str]) -> Iterable[Family]:
    for name, help_, by_cause in (
        ("fathom_cache_lists_total", "Lists of all objects, by their cause.", counts.lists),
        (
            "fathom_cache_watch_resumes_total",
            "Watches reopened, by how the previous one ended.",
            counts.resumes,
        ),
        ("fathom_cache_dropped_events_total", "Events that changed nothing, by cause.", counts.dropped),
    ):
        family = Family(name, "counter", help_)
        for (kind, cause), count in by_cause.items():
            family.add(count, {**labels, "kind": kind, "cause": cause})
        yield family
    for name, help_, by_kind in (
        ("fathom_cache_failures_total", "Lists and watches that were refused or broke off.", counts.failures),
        ("fathom_cache_silent_watches_total", "Watches closed because no event arrived.", counts.silent),
        ("fathom_cache_stale_lists_total", "Lists ignored because the cache was newer.", counts.behind),
        (
            "fathom_cache_handler_failures_total",
            "Change handlers that raised an error.",
            counts.handler_failures,
        ),
    ):
        yield _by_kind(name, help_, by_kind, labels)


def _by_kind(name: str, help_: str, counts: Counter[str], labels: Mapping[str, str]) -> Family:
    family = Family(name, "counter", help_)
    for kind, count in counts.items():
        family.add(count, {**labels, "kind": kind})
    return family
