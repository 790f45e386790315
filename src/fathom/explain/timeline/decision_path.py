"""The path of one decision: queue wait, versions read, filters and scores, results, what was observed."""

from __future__ import annotations

from collections.abc import Iterator

from fathom.explain.evidence import Recorded
from fathom.explain.timeline.timeline import DecisionPath, Entry, ReadVersion, WriteResult
from fathom.model.decision import Decision, Outcome, SeenVersions

KINDS_SHOWN, NODES_SHOWN = 8, 3


def path_of_decision(record: Recorded, *, may_read_nodes: bool) -> DecisionPath:
    decision = record.kept.decision
    return DecisionPath(
        queued_ms=decision.queued_ms if _was_queued(decision) else None,
        place=decision.place,
        read={kind: _read(seen) for kind, seen in decision.seen.items()},
        filters=decision.filters,
        scores=decision.scores if may_read_nodes else {},
        results=tuple(_result(outcome) for outcome in record.kept.outcomes),
        observed_generation=decision.observed_generation,
        condition=decision.condition,
    )


def _was_queued(decision: Decision) -> bool:
    """Housekeeping and heartbeats have no queue, and read no cache."""
    return bool(decision.queued_ms or decision.seen)


def _read(seen: SeenVersions) -> ReadVersion:
    return ReadVersion(seen.revision, seen.applied if seen.applied > seen.revision else 0, seen.age_ms)


def _result(outcome: Outcome) -> WriteResult:
    return WriteResult(outcome.result, outcome.revision, outcome.check)


# For readers.


def path_lines(entry: Entry) -> Iterator[str]:
    """Below the line of a decision, what it followed from and what came of it."""
    path = entry.path
    if path is None:
        return
    wait = "" if path.queued_ms is None else f"waited {path.queued_ms:g} ms"
    place = f"{wait} and was {path.place[0]} of {path.place[1]} in the queue" if path.place else wait
    read = ", ".join(_read_words(kind, seen) for kind, seen in list(path.read.items())[:KINDS_SHOWN])
    more = len(path.read) - KINDS_SHOWN
    yield from _line(
        f"generation {entry.generation}" if entry.generation else "",
        place,
        f"read {read}{f' and {more} more kinds' if more > 0 else ''}" if read else "",
    )
    filters = ", ".join(f"{reason}: {nodes} nodes" for reason, nodes in path.filters.items())
    scores = ", ".join(f"{node} {score}" for node, score in list(path.scores.items())[:NODES_SHOWN])
    yield from _line(f"filters: {filters}" if filters else "", f"scores: {scores}" if scores else "")
    yield from _line(
        _results(path.results),
        f"observed generation {path.observed_generation}" if path.observed_generation else "",
        path.condition,
    )


def _results(results: tuple[WriteResult, ...]) -> str:
    """'conflict; committed at 25, 28, 33'"""
    written = [each for each in results if each.result == "committed" and each.revision and not each.check]
    others = [_result_words(each) for each in results if each not in written]
    revisions = ", ".join(str(each.revision) for each in written)
    return "; ".join([*others, *([f"committed at {revisions}"] if revisions else [])])


def _result_words(each: WriteResult) -> str:
    at = f" at {each.revision}" if each.revision else ""
    return f"{each.result}{at}{f' ({each.check})' if each.check else ''}"


def _read_words(kind: str, seen: ReadVersion) -> str:
    age = f" ({seen.age_ms} ms old)" if seen.age_ms > 0 else ""
    return f"{kind} at {max(seen.revision, seen.newest)}{age}"


def _line(*parts: str) -> Iterator[str]:
    if any(parts):
        yield "; ".join(part for part in parts if part)
