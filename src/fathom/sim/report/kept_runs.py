"""Write failing runs to files, and name the one command that replays each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from fathom.sim import FAILURES
from fathom.sim.report.artifact import artifact_of, write
from fathom.sim.report.run_report import RunReport, as_lines, replay_command, report
from fathom.sim.world.scenario import Result, RunPlan, Scenario, ScenarioRun, sweep, tell

# Of one invariant in one scenario: more are counted, and not kept.
KEPT_MAX = 3


NO_NAME = re.compile(r"[^\w.-]+")


class KeptRun(msgspec.Struct, frozen=True):
    file: Path
    rerun: str
    replay: str


def keep(
    run_report: RunReport, scenario_run: ScenarioRun, *, patch: Path | None = None, out: Path = FAILURES
) -> KeptRun:
    file = out / file_name(run_report.result.plan)
    write(artifact_of(run_report, scenario_run, patch=patch), file)
    replay = replay_command(run_report.result.plan, str(file), patch=run_report.patch)
    return KeptRun(file, run_report.rerun or replay, replay)


def file_name(plan: RunPlan) -> str:
    """The same run has the same name: running it again leaves one file."""
    words = [NO_NAME.sub("_", word).strip("_")[-80:] for word in (plan.scenario, plan.seed, plan.strategy)]
    return f"{'-'.join(words)}.json"


def keep_some(
    scenarios: Mapping[str, Scenario], violations: Sequence[Result], *, patch: Path | None, out: Path
) -> list[KeptRun]:
    """Run the first ones of each sort again, and write them to files."""
    kept: list[KeptRun] = []
    counts: dict[tuple[str, str], int] = {}
    for result in violations:
        assert result.violation is not None
        sort = (result.plan.scenario, result.violation.invariant)
        counts[sort] = counts.get(sort, 0) + 1
        if counts[sort] <= KEPT_MAX:
            again, scenario_run = report(scenarios[result.plan.scenario], result.plan, patch=str(patch or ""))
            kept.append(keep(again, scenario_run, patch=patch, out=out))
    return kept


def must_hold(scenario: Scenario, plan: RunPlan, *, out: Path = FAILURES) -> Result:
    """For tests: a run with a violation fails them with its report, and leaves its file."""
    result = tell(scenario, plan)
    sweep()
    if result.violation is not None:
        run_report, scenario_run = report(scenario, plan)
        kept = keep(run_report, scenario_run, out=out)
        raise AssertionError("\n".join(as_lines(run_report, artifact=str(kept.file))))
    return result
