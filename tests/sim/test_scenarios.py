"""The stories hold on the code as it is: a few seeds of each here, many with --full."""

from __future__ import annotations

import pytest

from fathom.sim.chronicle import Chronicle
from fathom.sim.faults import CrashAtWrite
from fathom.sim.keeping import must_hold
from fathom.sim.lineage import Write, supports_of
from fathom.sim.scenario import Plan, Strategy, Telling, plan_of
from fathom.sim.scenarios import (
    SCENARIOS,
    claims,
    crashes,
    duplicate,
    history,
    jobs,
    leaders,
    quotas,
    replicas,
    reservations,
    serving,
)
from fathom.sim.scenarios.incident import LEADER
from fathom.sim.scenarios.staff import AGENT, MANAGERS

MODULES = (history, replicas, leaders, reservations, duplicate, jobs, serving, claims, quotas, crashes)
NAMES = [one.name for module in MODULES for one in module.SCENARIOS]


def holds(name: str, seed: str, strategy: Strategy = "random") -> None:
    must_hold(SCENARIOS[name], plan_of(SCENARIOS[name], seed, strategy))


@pytest.mark.parametrize("name", NAMES)
def test_a_story_holds_whatever_goes_wrong(name: str) -> None:
    holds(name, "1")
    holds(name, "2", "pct")


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_a_story_holds_under_many_seeds(name: str) -> None:
    for seed in range(100):
        holds(name, str(seed), ("random", "pct")[seed % 2])


# A crash after any single write.


def writes_of(process: str) -> int:
    """How many writes a process sends in the story when nothing goes wrong."""
    scenario = SCENARIOS["crash-after-any-write"]
    chronicle = Chronicle()
    telling = Telling(scenario, Plan(scenario=scenario.name, seed="0"), chronicle=chronicle)
    assert telling.run().violation is None
    supports = supports_of(chronicle, telling.engine.began_ns, frozenset({process}))
    return sum(isinstance(one, Write) for one in supports)


def dies_at(process: str, number: int) -> None:
    scenario = SCENARIOS["crash-after-any-write"]
    crash = CrashAtWrite(at_s=0.0, target=process, times=number, for_s=1.0)
    result = must_hold(scenario, Plan(scenario=scenario.name, seed="0", faults=(crash,)))
    assert any("crash-at-write" in site for site in result.fired), (process, number, "did not happen")


def test_a_crash_after_some_writes_of_a_rollout_still_converges() -> None:
    assert writes_of(MANAGERS[0]) > 30
    for number in (1, 2, 7, 13, 19, 29):
        dies_at(MANAGERS[0], number)


@pytest.mark.full
@pytest.mark.parametrize("process", [MANAGERS[0], AGENT])
def test_a_crash_after_any_write_of_a_rollout_still_converges(process: str) -> None:
    for number in range(1, writes_of(process) + 1):
        dies_at(process, number)


def test_seeds_go_through_all_writes_of_all_victims() -> None:
    found = [crashes.nth_write(str(seed))[0] for seed in range(6)]
    assert [(one.target, one.times) for one in found] == [
        ("manager-1", 1), ("agent", 1), ("api-1", 1), ("manager-1", 2), ("agent", 2), ("api-1", 2),
    ]  # fmt: skip


def test_the_leader_of_the_incident_is_the_one_that_its_faults_strike() -> None:
    assert {fault.target for fault in duplicate.SCRIPT} == {LEADER, "scheduler-2", "repair"}
