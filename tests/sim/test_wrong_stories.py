"""Runs in which a scenario once called right code broken: the scenario was wrong, and the runs hold."""

from __future__ import annotations

from fathom.sim.report.kept_runs import must_hold
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.faults import AnyFault, CommitLost
from fathom.sim.world.scenario import RunPlan


def holds(name: str, *faults: AnyFault, seed: str, scale: int = 1) -> None:
    plan = RunPlan(scenario=name, seed=seed, strategy="lineage", faults=faults, scale=scale)
    must_hold(SCENARIOS[name], plan)


def test_a_delete_that_the_scenario_sent_and_the_store_never_got_is_sent_again() -> None:
    """1. The scenario deletes a Deployment. 2. The commit never reaches the store. 3. There is nothing to
    repair, for ever."""
    holds("a-persons-decision", CommitLost(at_s=0.005, target="api-1"), seed="1")
