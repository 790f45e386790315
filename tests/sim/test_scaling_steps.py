"""Steps of an autoscaler of unknown outcome, or that are made late: its policy counts them too."""

from __future__ import annotations

from tests.sim.small import passes, story

from fathom.client.settle import READS_MAX
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS
from fathom.sim.report.kept_runs import must_hold
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.scenarios.loads import (
    ASKED,
    HIGH,
    MANY,
    POLICY,
    AutoscalersOfLoad,
    GrowthWithinThePolicy,
    Load,
)
from fathom.sim.scenarios.staff import MANAGERS, run_managers_and_agents
from fathom.sim.scenarios.workloads import autoscaler, deployment
from fathom.sim.world.faults import AnyFault, LoseReply, Refuse, SlowRequest
from fathom.sim.world.scenario import RunPlan
from fathom.sim.world.world import World

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/web"
CALM_S = 120.0  # Longer than a period of the policy: what earlier leaders did no longer matters.


def test_a_step_that_arrives_late_counts_from_then_for_the_next_leader() -> None:
    """1. A leader writes the time, and scales. 2. That request takes 16 s. 3. It arrives, and the leader
    dies. 4. The next one counted the period from the time that was written."""
    slow = SlowRequest(at_s=15.0, target="manager-*", match=f"PATCH {DEPLOYMENT}", for_s=1.0, delay_s=16.0)
    name = "scaled-by-one-leader-after-another"
    must_hold(SCENARIOS[name], RunPlan(scenario=name, seed="2", faults=(slow,)))


async def much_later_the_load_rises(world: World) -> None:
    load = Load()
    load.nanos = HIGH // 2  # As much as the target says.
    run_managers_and_agents(world, Deployments, ReplicaSets, DeploymentProgress, AutoscalersOfLoad(load))
    web = deployment("web", 2)
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": ASKED}}
    await world.apply(DEPLOYMENTS, web)
    scaler = autoscaler("web", MANY)
    scaler["spec"]["behavior"] = {"scaleUp": {"policies": [POLICY]}}
    await world.apply(AUTOSCALERS, scaler)
    await world.sleep(CALM_S)
    load.nanos = 4 * HIGH
    await world.sleep(2 * CALM_S)


def test_a_step_whose_outcome_nobody_was_told_counts() -> None:
    """1. A leader scales; the answer is lost, and every question for its outcome fails. 2. It sees the larger
    size, and knows of no step."""
    unheard: tuple[AnyFault, ...] = (
        LoseReply(at_s=CALM_S, target="manager-*", match=f"PATCH {DEPLOYMENT}", for_s=60.0, told_s=1.0),
        Refuse(at_s=CALM_S, target="manager-*", match=f"GET {DEPLOYMENT}", for_s=60.0, times=READS_MAX),
    )
    growing = story(much_later_the_load_rises, checkers=lambda: [GrowthWithinThePolicy()], processes=MANAGERS)
    result = passes(growing, unheard)
    assert {fault.partition(" ")[0]: times for fault, times in result.fired.items()} == {
        "lose-reply": 1,
        "refuse": READS_MAX,
    }
