"""Compares futures: which counts differ, and how far they spread over the seeds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fathom.kinds.preview_answer import Counts, Difference, Outcome, Spread

Measure = tuple[str, str, str | None]  # Of whom, what, in which zone.


def differences(without: Sequence[Outcome], with_: Sequence[Outcome]) -> tuple[Difference, ...]:
    """The counts that differ in at least one seed; those of the target first. Outcomes of the same place in
    both sequences have the same seed."""
    before, after = [dict(measures(each)) for each in without], [dict(measures(each)) for each in with_]
    names = dict.fromkeys(name for counts in (*before, *after) for name in counts)
    rows = []
    for of, what, zone in sorted(names, key=_order):
        pairs = [
            (a.get((of, what, zone), 0), b.get((of, what, zone), 0))
            for a, b in zip(before, after, strict=True)
        ]
        if any(a != b for a, b in pairs):
            rows.append(
                Difference(
                    of=of,
                    what=what,
                    zone=zone,
                    without=spread(a for a, _ in pairs),
                    with_=spread(b for _, b in pairs),
                    change=spread(b - a for a, b in pairs),
                )
            )
    return tuple(rows)


def measures(outcome: Outcome) -> Iterator[tuple[Measure, int]]:
    for of, counts in (("target", outcome.target), ("cluster", outcome.cluster)):
        yield from _counts(of, counts)
    for workload, replicas in outcome.replicas.items():
        yield (workload, "replicas", None), replicas


def _counts(of: str, counts: Counts) -> Iterator[tuple[Measure, int]]:
    yield (of, "ready", None), counts.ready
    yield (of, "pending", None), counts.pending
    yield (of, "evicted", None), counts.evicted
    for zone, bound in counts.bound.items():
        yield (of, "bound", zone), bound


def _order(measure: Measure) -> tuple[int, str, int, str, str]:
    of, what, zone = measure
    people = {"target": 0, "cluster": 1}.get(of, 2)
    return people, of, 0 if what == "bound" else 1, what, zone or ""


def spread(values: Iterable[int]) -> Spread:
    listed = list(values)
    return Spread(min(listed), max(listed))


def with_fewer_workloads(outcomes: Sequence[Outcome], keep: frozenset[str]) -> list[Outcome]:
    """Without the replicas of workloads that all outcomes agree about. `keep`: these stay anyway."""
    wanted: dict[str, set[int | None]] = {}
    for name in dict.fromkeys(name for outcome in outcomes for name in outcome.replicas):
        wanted[name] = {outcome.replicas.get(name) for outcome in outcomes}
    kept = [name for name, values in wanted.items() if len(values) > 1 or name in keep]
    return [
        msgspec.structs.replace(
            outcome, replicas={name: outcome.replicas[name] for name in kept if name in outcome.replicas}
        )
        for outcome in outcomes
    ]
