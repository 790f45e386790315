"""What an exploration found, while it runs and at its end; as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fathom.sim.report.kept_runs import KeptRun
from fathom.sim.world.faults import MAKERS
from fathom.sim.world.scenario import Result

LISTED_MAX = 12  # Scenarios whose runs are listed one by one; of more, the fewest and the most.
ENDS = 3


class ScenarioRuns(msgspec.Struct):
    """How often one scenario ran."""

    runs: int = 0
    held: int = 0
    strategies: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, result: Result) -> None:
        self.runs += 1
        self.held += result.violation is None
        count(self.strategies, {result.plan.strategy: 1})


class ExploreSummary(msgspec.Struct):
    runs: int = 0
    violations: list[Result] = msgspec.field(default_factory=list)
    sim_s: float = 0.0
    busy_s: float = 0.0  # Of all workers together.
    real_s: float = 0.0
    coverage: dict[str, int] = msgspec.field(default_factory=dict)  # 'fault site' -> how often it fired
    hits: dict[str, int] = msgspec.field(default_factory=dict)  # `sometimes`
    interrupted: bool = False  # By Ctrl-C.
    reached: dict[str, int] = msgspec.field(default_factory=dict)  # 'fault site: state' -> runs
    scenarios: dict[str, ScenarioRuns] = msgspec.field(default_factory=dict)  # Also those that never ran.
    resumed: int = 0  # Runs that were read from the file of results, and not run again.

    def add(self, result: Result, *, resumed: bool = False) -> None:
        self.runs += 1
        self.resumed += resumed
        self.sim_s += result.sim_s
        self.busy_s += result.real_s
        count(self.coverage, result.fired)
        count(self.hits, result.hits)
        count(self.reached, dict.fromkeys(result.reached, 1))
        self.scenarios.setdefault(result.plan.scenario, ScenarioRuns()).add(result)
        if result.violation is not None:
            self.violations.append(result)

    def merge(self, other: ExploreSummary) -> None:
        """Add the results of another exploration that ran after this one."""
        self.runs += other.runs
        self.violations += other.violations
        self.sim_s += other.sim_s
        self.busy_s += other.busy_s
        self.real_s += other.real_s
        count(self.coverage, other.coverage)
        count(self.hits, other.hits)
        count(self.reached, other.reached)

    @property
    def runs_per_s(self) -> float:
        return (self.runs - self.resumed) / self.real_s if self.real_s else 0.0

    @property
    def sim_ratio(self) -> float:
        """Simulated seconds per second of one core."""
        return self.sim_s / self.busy_s if self.busy_s else 0.0


def count(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, times in more.items():
        into[name] = into.get(name, 0) + times


def as_json(summary: ExploreSummary, kept: Sequence[KeptRun] = (), *, failed: str = "") -> dict[str, Any]:
    return {
        "runs": summary.runs,
        "resumed": summary.resumed,
        "runs_per_s": round(summary.runs_per_s, 2),
        "sim_ratio": round(summary.sim_ratio, 1),
        "held": {name: msgspec.to_builtins(runs) for name, runs in sorted(summary.scenarios.items())},
        "violations": [_violation(result) for result in summary.violations],
        "coverage": {
            "pairs": dict(sorted(summary.coverage.items())),
            "states": len(summary.reached),
            "never": never_fired(summary),
            "sometimes": dict(sorted(summary.hits.items())),
        },
        "seconds": round(summary.real_s, 2),
        "interrupted": summary.interrupted,
        "failed": failed,
        "artifacts": [str(kept_run.file) for kept_run in kept],
        "reruns": [kept_run.rerun for kept_run in kept],
        "not_kept": len(summary.violations) - len(kept),
    }


def never_fired(summary: ExploreSummary) -> list[str]:
    """Kinds of fault that never took effect: they are untested."""
    fired = {pair.partition(" ")[0] for pair in summary.coverage}
    return sorted({name for name, _ in MAKERS} - fired)


def _violation(result: Result) -> dict[str, Any]:
    violation, plan = result.violation, result.plan
    assert violation is not None
    return {
        "scenario": plan.scenario,
        "seed": plan.seed,
        "strategy": plan.strategy,
        "invariant": violation.invariant,
        "message": violation.message,
        "at_s": round(violation.at_s, 3),
        "faults": len(plan.faults),
    }


def as_lines(summary: ExploreSummary, kept: Sequence[KeptRun] = ()) -> list[str]:
    hits = ", ".join(f"{name} ×{times}" for name, times in sorted(summary.hits.items()))
    before = f", {summary.resumed:,} of them before" if summary.resumed else ""
    lines = [
        f"{summary.runs:,} runs{' (interrupted)' if summary.interrupted else ''}{before}, "
        f"{summary.runs_per_s:,.1f}/s, {summary.sim_s:,.0f} s simulated, "
        f"{summary.sim_ratio:,.0f} × real time on a core",
        f"{len(summary.coverage)} pairs of fault and site fired, in {len(summary.reached)} states; "
        f"sometimes: {hits or 'nothing'}",
        *_held(summary),
    ]
    if not summary.violations:
        return lines
    lines += [f"{len(summary.violations)} violations:", *_by_invariant(summary.violations)]
    for kept_run in kept:
        lines += [f"replay:  {kept_run.replay}", *_rerun(kept_run)]
    not_kept = len(summary.violations) - len(kept)
    return [*lines, f"({not_kept} more of the same were not kept)"] if not_kept else lines


def _held(summary: ExploreSummary) -> Iterator[str]:
    """That something held says little without how often it was tried."""
    scenarios = sorted(summary.scenarios.items(), key=lambda each: (-each[1].runs, each[0]))
    if not scenarios:
        return
    whole = not summary.violations and summary.runs > 0
    fewest, most = scenarios[-1][1].runs, scenarios[0][1].runs
    each = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    words = "everything held" if whole else "held"
    noun = "scenario" if len(scenarios) == 1 else "scenarios"
    yield f"{words}: {len(scenarios):,} {noun}, {each} runs each"
    shown = scenarios if len(scenarios) <= LISTED_MAX else [*scenarios[:ENDS], *scenarios[-ENDS:]]
    width = max(len(_runs_of(runs)) for _, runs in shown)
    yield from (f"  {_runs_of(runs):<{width}}  {name}" for name, runs in shown)
    if len(shown) < len(scenarios):
        yield f"  ({len(scenarios) - len(shown)} more are in between; --json has all)"


def _runs_of(runs: ScenarioRuns) -> str:
    """'12 of 12 (6 random, 6 lineage)'"""
    parts = ", ".join(f"{times} {strategy}" for strategy, times in runs.strategies.items())
    return f"{runs.held} of {runs.runs}" + (f" ({parts})" if parts else "")


def _rerun(kept: KeptRun) -> list[str]:
    return [] if kept.rerun == kept.replay else [f"rerun:   {kept.rerun}"]


def _by_invariant(violations: Sequence[Result]) -> Iterator[str]:
    sorts: dict[tuple[str, str], list[str]] = {}
    for result in violations:
        assert result.violation is not None
        sorts.setdefault((result.plan.scenario, result.violation.invariant), []).append(result.plan.seed)
    for (name, invariant), seeds in sorts.items():
        shown = f"{', '.join(seeds[:8])}{' …' if len(seeds) > 8 else ''}"
        yield f"  {name}: {invariant}: ×{len(seeds)}, seeds {shown}"
