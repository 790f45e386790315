"""Runs in which a scenario once called right code broken: the scenario was wrong, and the runs hold."""

from __future__ import annotations

from fathom.sim.report.kept_runs import must_hold
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.faults import AnyFault, CommitLost, Pause, SlowRequest
from fathom.sim.world.scenario import RunPlan


def holds(name: str, *faults: AnyFault, seed: str, scale: int = 1) -> None:
    plan = RunPlan(scenario=name, seed=seed, strategy="lineage", faults=faults, scale=scale)
    must_hold(SCENARIOS[name], plan)


def test_a_delete_that_the_scenario_sent_and_the_store_never_got_is_sent_again() -> None:
    """1. The scenario deletes a Deployment. 2. The commit never reaches the store. 3. There is nothing to
    repair, for ever."""
    holds("a-persons-decision", CommitLost(at_s=0.005, target="api-1"), seed="1")


def test_an_override_that_arrives_after_its_end_may_be_named_by_a_later_refusal() -> None:
    """1. A create is late, and its sender gives up. 2. The scenario ends what it can see. 3. The override
    arrives, and is in force. 4. Both overrides of the next round contradict it."""
    late = SlowRequest(
        at_s=0.262,
        target="alice*",
        match="POST /apis/fathom.dev/v1alpha1/namespaces/default/scheduleroverrides",
        delay_s=16.0,
    )
    holds("conflicting-overrides", late, Pause(at_s=7.39, target="bob", for_s=16.0), seed="2", scale=6)
