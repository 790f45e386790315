"""The real controllers of workloads hold in simulated worlds, and bugs that are put back into them are found:
a few seeds here, many with --full."""

from __future__ import annotations

import pytest
from tests.sim.putting_back import ZOO, in_a_child

from fathom.sim.chronicle import Chronicle
from fathom.sim.faults import CrashAtWrite
from fathom.sim.keeping import must_hold
from fathom.sim.lineage import Write, supports_of
from fathom.sim.patches import Bug, bugs
from fathom.sim.scenario import Plan, Telling, plan_of, sweep, tell
from fathom.sim.scenarios import SCENARIOS, rollback, workloads
from fathom.sim.scenarios.staff import AGENT, MANAGERS

NAMES = [one.name for one in (*workloads.SCENARIOS, *rollback.SCENARIOS)]
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


@pytest.mark.parametrize("name", NAMES)
def test_a_story_holds_whatever_goes_wrong(name: str) -> None:
    must_hold(SCENARIOS[name], plan_of(SCENARIOS[name], "1"))


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_a_story_holds_under_many_seeds(name: str) -> None:
    for seed in range(100):
        must_hold(SCENARIOS[name], plan_of(SCENARIOS[name], str(seed), ("random", "pct")[seed % 2]))


def writes_of(process: str) -> int:
    """How many writes a process sends in the rollout when nothing goes wrong."""
    chronicle = Chronicle()
    telling = Telling(ROLLOUT, Plan(scenario=ROLLOUT.name, seed="0"), chronicle=chronicle)
    assert telling.run().violation is None
    supports = supports_of(chronicle, telling.engine.began_ns, frozenset({process}))
    return sum(isinstance(one, Write) for one in supports)


def dies_at(process: str, number: int) -> None:
    crash = CrashAtWrite(at_s=0.0, target=process, times=number, for_s=1.0)
    result = must_hold(ROLLOUT, Plan(scenario=ROLLOUT.name, seed="0", faults=(crash,)))
    assert any("crash-at-write" in site for site in result.fired), (process, number, "did not happen")


def test_a_crash_after_some_writes_of_a_rollout_still_converges() -> None:
    assert writes_of(MANAGERS[0]) > 40
    for number in (3, 11, 23, 37):
        dies_at(MANAGERS[0], number)


@pytest.mark.full
@pytest.mark.parametrize("process", [MANAGERS[0], AGENT])
def test_a_crash_after_any_write_of_a_rollout_still_converges(process: str) -> None:
    for number in range(1, writes_of(process) + 1):
        dies_at(process, number)


def hunted(bug: Bug, seeds: int) -> str:
    """The invariant that is broken first; '' if none is."""
    for seed in range(seeds):
        scenario = SCENARIOS[bug.scenarios[0]]
        result = tell(scenario, plan_of(scenario, str(seed)))
        sweep()
        if result.violation is not None:
            return result.violation.invariant
    return ""


@pytest.mark.parametrize("name", sorted(SOON))
def test_a_bug_that_is_put_back_is_found(name: str) -> None:
    bug = BUGS[name]
    assert in_a_child(bug.file.stem, lambda: hunted(bug, SOON[name])) == bug.breaks


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(SELDOM))
def test_a_bug_that_shows_seldom_is_found_too(name: str) -> None:
    bug = BUGS[name]
    assert in_a_child(bug.file.stem, lambda: hunted(bug, SELDOM[name])) == bug.breaks
