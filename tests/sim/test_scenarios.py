"""Every scenario there is holds on the code as it is: one seed of each here, many with --full. A new one is
told here without being listed."""

from __future__ import annotations

import pytest
from tests.sim.crashing import survived

from fathom.sim.report.kept_runs import must_hold
from fathom.sim.scenarios import SCENARIOS, crashes, duplicate
from fathom.sim.scenarios.incident import LEADER
from fathom.sim.scenarios.staff import AGENT, MANAGERS
from fathom.sim.world.scenario import Strategy, plan_of

STRATEGIES: tuple[Strategy, ...] = ("random", "pct")  # In turn.
MANY = 12  # A quarter of an hour of CPU. To look for longer: fathom sim explore.


def holds(name: str, seed: str, strategy: Strategy = "random") -> None:
    must_hold(SCENARIOS[name], plan_of(SCENARIOS[name], seed, strategy))


@pytest.mark.parametrize(("number", "name"), list(enumerate(SCENARIOS)), ids=SCENARIOS)
def test_a_scenario_holds_whatever_goes_wrong(number: int, name: str) -> None:
    holds(name, str(1 + number % 2), STRATEGIES[number % 2])


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_under_many_seeds(name: str) -> None:
    for seed in range(MANY):
        holds(name, str(seed), STRATEGIES[seed % 2])


# A crash after any single write.


@pytest.mark.full
def test_a_crash_after_some_writes_of_a_rollout_still_converges() -> None:
    numbers = (1, 2, 7, 13, 19, 29)
    assert survived(SCENARIOS["crash-after-any-write"], MANAGERS[0], numbers) == len(numbers)


@pytest.mark.full
@pytest.mark.parametrize(("process", "writes"), [(MANAGERS[0], 40), (AGENT, 10), ("api-1", 60)])
def test_a_crash_after_any_write_of_a_rollout_still_converges(process: str, writes: int) -> None:
    assert survived(SCENARIOS["crash-after-any-write"], process) > writes


def test_seeds_go_through_all_writes_of_all_victims() -> None:
    found = [crashes.nth_write(str(seed))[0] for seed in range(6)]
    assert [(one.target, one.times) for one in found] == [
        ("manager-1", 1), ("agent", 1), ("api-1", 1), ("manager-1", 2), ("agent", 2), ("api-1", 2),
    ]  # fmt: skip


def test_the_leader_of_the_incident_is_the_one_that_its_faults_strike() -> None:
    assert {fault.target for fault in duplicate.SCRIPT} == {LEADER, "scheduler-2", "repair"}
