"""What a pod that waits says about it, when the write that says so goes wrong, and when it gave up a node."""

from __future__ import annotations

import pytest
from tests.control.worlds import told
from tests.schedule.test_late_answers import believed

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, lookup
from fathom.model.resources import NODES, PODS
from fathom.sim.scenarios.scheduling import CLASSES, QUOTAS, node, pod, quota, run_scheduler
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.faults import AnyFault, LoseReply, LoseRequest, Refuse
from fathom.sim.world.world import World

BIG = Key("default", "big")
SAY = "PATCH /api/v1/namespaces/default/pods/big/status"
TAINT = {"key": "kept", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    "fault",
    [
        LoseRequest(at_s=0.0, target="scheduler", match=SAY),
        LoseReply(at_s=0.0, target="scheduler", match=SAY),
        *(Refuse(at_s=0.0, target="scheduler", match=SAY, status=status) for status in (409, 429, 500, 503)),
    ],
    ids=["lost", "unanswered", "conflict", "too many requests", "failed", "unavailable"],
)
def test_why_a_pod_waits_is_written_though_the_first_write_goes_wrong(fault: AnyFault) -> None:
    async def story(world: World) -> None:
        run_scheduler(world, "scheduler")
        await world.apply(QUOTAS, quota("default", cpu="400"))
        await world.apply(NODES, node("node-1"))
        await world.apply(PODS, pod("big", cpu="64"))
        await world.sleep(150)  # It is tried again each minute, and says the same each time.
        said = find_condition(conditions_of(world.get("pods", BIG) or {}), "PodScheduled")
        assert said is not None
        assert said["status"] == "False"
        assert "Insufficient cpu" in said["message"]

    told(story, faults=[fault])


def test_a_pod_that_gave_up_a_node_names_it_no_more_and_keeps_nobody_from_it() -> None:
    async def story(world: World) -> None:
        run_scheduler(world, "scheduler")
        run_controllers(world, "agent", SimulatedNodes)
        await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
        await world.apply(QUOTAS, quota("default", cpu="40"))
        await world.apply(NODES, node("node-1"))
        victim = pod("victim", cpu="4")
        victim["spec"] |= {"terminationGracePeriodSeconds": 20, "nodeName": "node-1"}
        await world.apply(PODS, victim)
        await world.sleep(2)
        await world.apply(PODS, pod("big", cpu="4", high=True))
        await world.until(
            lambda: lookup(world.get("pods", BIG), "status", "nominatedNodeName") == "node-1",
            within_s=10,
            what="room is made for it",
        )
        await world.api.patch(NODES, "", "node-1", {"spec": {"taints": [TAINT]}})
        await world.sleep(150)
        assert believed(world) == ([], [])
        assert not lookup(world.get("pods", BIG), "status", "nominatedNodeName")
        tolerant = pod("tolerant", cpu="4")
        tolerant["spec"]["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
        await world.apply(PODS, tolerant)
        await world.until(
            lambda: lookup(world.get("pods", Key("default", "tolerant")), "spec", "nodeName") == "node-1",
            within_s=10,
            what="the room that it gave up is used",
        )

    told(story)
