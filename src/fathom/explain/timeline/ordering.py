"""The order of entries: by time, and causes before their effects.

Clocks differ a little, and an audit entry is written a moment after its commit: an effect may have an earlier
time than its recorded cause. It keeps its time, and comes after the cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathom.explain.timeline.timeline import Edge, Entry
from fathom.model.times import SECOND_NS

# Of entries with the same time: a cache is read, rules reject, the decision is made, it is written.
ORDER = {"queue": 0, "cache": 1, "admission": 2, "decision": 4, "event": 6, "condition": 7}
CACHE_READ = "cache:"  # The entry of a decision's reading, by its id.
# Clocks that differ by more are a fault of their own, and the times show it.
SKEW_NS_MAX = 2 * SECOND_NS


def in_order(entries: Sequence[Entry], edges: Sequence[Edge]) -> list[Entry]:
    times = {entry.id: entry.time_ns for entry in entries}
    causes: dict[str, list[str]] = {}
    for edge in (*edges, *_of_parts(entries, edges)):
        if times[edge.effect] <= times[edge.cause] < times[edge.effect] + SKEW_NS_MAX:
            causes.setdefault(edge.effect, []).append(edge.cause)
    ranks: dict[str, tuple[int, int]] = {}
    placed = [(_rank(entry.id, times, causes, ranks, set()), entry) for entry in entries]
    placed.sort(key=lambda pair: (pair[0], *_tie(pair[1])))
    return [entry for _, entry in placed]


def _of_parts(entries: Sequence[Entry], edges: Sequence[Edge]) -> Iterator[Edge]:
    """The caches that a decision read and the rules that it went by come after what woke it, as it does."""
    parts = {entry.id for entry in entries if _is_rule(entry) or entry.id.startswith(CACHE_READ)}
    times = {entry.id: entry.time_ns for entry in entries}
    parts_of: dict[str, list[str]] = {}
    for edge in edges:
        if edge.cause in parts and times[edge.cause] == times[edge.effect]:
            parts_of.setdefault(edge.effect, []).append(edge.cause)
    for edge in edges:
        if edge.cause not in parts:
            yield from (Edge(edge.cause, part, edge.kind) for part in parts_of.get(edge.effect, ()))


def _rank(
    id_: str,
    times: dict[str, int],
    causes: dict[str, list[str]],
    ranks: dict[str, tuple[int, int]],
    above: set[str],
) -> tuple[int, int]:
    """The time, or that of the latest cause; and how many causes of that time lie before it."""
    if id_ not in ranks:
        rank = (times[id_], 0)
        for cause in causes.get(id_, ()):
            if cause not in above:  # A circle of causes: records cannot say what came first.
                time_ns, depth = _rank(cause, times, causes, ranks, above | {id_})
                rank = max(rank, (time_ns, depth + 1))
        ranks[id_] = rank
    return ranks[id_]


def _tie(entry: Entry) -> tuple[int, int, str]:
    return ORDER.get(entry.source, 5) - _is_rule(entry), entry.revision, entry.id


def _is_rule(entry: Entry) -> bool:
    return "/" in entry.id and entry.source == "decision"
