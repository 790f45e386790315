"""Runs that were broken when they were found, each with what was wrong: they hold now.

Each line of `runs_once_broken.jsonl` is one of them, with the faults that it needed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fathom.sim.report.kept_runs import must_hold
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.scenario import RunPlan


class OnceBroken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    what_was_wrong: str
    plan: RunPlan


RUNS = [
    msgspec.json.decode(line, type=OnceBroken)
    for line in Path(__file__).with_name("runs_once_broken.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.plan.scenario}-{run.plan.seed}")
def test_a_run_that_was_broken_holds(run: OnceBroken) -> None:
    must_hold(SCENARIOS[run.plan.scenario], run.plan)
