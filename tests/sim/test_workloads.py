"""Bugs that are put back into the controllers of workloads are found, and a rollout survives crashes: a few
seeds here, many with --full."""

from __future__ import annotations

import pytest
from tests.sim.crashing import survived
from tests.sim.putting_back import ZOO, in_a_child

from fathom.sim.scenarios import SCENARIOS
from fathom.sim.scenarios.staff import AGENT, MANAGERS
from fathom.sim.search.patches import Bug, bugs
from fathom.sim.world.scenario import plan_of, sweep, tell

ROLLOUT = SCENARIOS["a-crash-at-any-write-of-a-rollout"]

# Seeds that are tried.
SOON = {
    "rollback-takes-the-healthy": 3,
    "job-counts-from-stale-cache": 10,
    "endpoints-equal-skip": 10,
    "autoscaler-trusts-readiness": 5,
}
SELDOM = {"rollout-without-own-writes": 60, "rollout-expectations-expire": 60}
BUGS = {bug.name: bug for bug in bugs(ZOO)}


@pytest.mark.full
def test_a_crash_after_some_writes_of_a_rollout_still_converges() -> None:
    numbers = (3, 11, 23, 37)
    assert survived(ROLLOUT, MANAGERS[0], numbers) == len(numbers)


@pytest.mark.full
@pytest.mark.parametrize("seed", ["0", "41"])
@pytest.mark.parametrize(("process", "writes"), [(MANAGERS[0], 40), (AGENT, 10), ("api-1", 60)])
def test_a_crash_after_any_write_of_a_rollout_still_converges(process: str, writes: int, seed: str) -> None:
    assert survived(ROLLOUT, process, seed=seed) > writes


def hunted(bug: Bug, seeds: int) -> str:
    """The invariant that is broken first; '' if none is."""
    for seed in range(seeds):
        scenario = SCENARIOS[bug.scenarios[0]]
        result = tell(scenario, plan_of(scenario, str(seed)))
        sweep()
        if result.violation is not None:
            return result.violation.invariant
    return ""


@pytest.mark.live
@pytest.mark.parametrize("name", sorted(SOON))
def test_a_bug_that_is_put_back_is_found(name: str) -> None:
    bug = BUGS[name]
    assert in_a_child(bug.file.stem, hunted, bug, SOON[name]) == bug.breaks


@pytest.mark.live
@pytest.mark.full
@pytest.mark.parametrize("name", sorted(SELDOM))
def test_a_bug_that_shows_seldom_is_found_too(name: str) -> None:
    bug = BUGS[name]
    assert in_a_child(bug.file.stem, hunted, bug, SELDOM[name]) == bug.breaks
