"""The results of a run of the zoo, as JSON and as text."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fathom.sim.search.patches import Bug
from fathom.sim.search.zoo_run import Control, Effort, Hunted, Visit
from fathom.sim.world.scenario import Strategy


def gain(hunted: Iterable[Hunted], strategy: Strategy, *, runs_max: int) -> float | None:
    """How many runs this strategy needs for one of lineage's: the geometric mean over all bugs that either
    finds. A strategy that finds nothing counts as if it had found the bug in the last run allowed."""
    counts = [result.runs_to_find for result in hunted if {strategy, "lineage"} <= result.runs_to_find.keys()]
    pairs = [(runs[strategy], runs["lineage"]) for runs in counts]
    ratios = [(theirs or runs_max) / (ours or runs_max) for theirs, ours in pairs if theirs or ours]
    return round(statistics.geometric_mean(ratios), 2) if ratios else None


def as_json(visit: Visit, bugs: Sequence[Bug], effort: Effort) -> dict[str, Any]:
    hunted = [visit.hunted[bug.name] for bug in bugs if bug.name in visit.hunted]
    return {
        "bugs": hunted,
        "found": sum(result.found for result in hunted),
        "of": len(bugs),
        "runs_max": effort.runs_max,
        "repeats": effort.repeats,
        "gain": {
            strategy: gain(hunted, strategy, runs_max=effort.runs_max) for strategy in ("random", "pct")
        },
        "control": visit.control,
        "seconds": visit.seconds,
        "interrupted": visit.interrupted,
    }


def as_lines(document: dict[str, Any]) -> Iterator[str]:
    if not document["of"]:
        yield "the zoo is empty"
        return
    ended = ", interrupted" if document["interrupted"] else ""
    yield f"{document['found']} of {document['of']} bugs found in {document['seconds']:,.0f} s{ended}"
    for strategy, times in document["gain"].items():
        if times is not None:
            yield f"{strategy} needs {times:g} × as many runs as lineage (geometric mean)"
    if document["control"] is not None:
        yield from _control_lines(document["control"])


def _control_lines(control: Control) -> Iterator[str]:
    yield f"without any bug: {control.runs:,} runs, {len(control.violations)} violations"
    for violation in control.violations:
        where = f"{violation['scenario']}, seed {violation['seed']}, {violation['strategy']}"
        yield f"  {where}: {violation['invariant']}: {violation['message']}"
