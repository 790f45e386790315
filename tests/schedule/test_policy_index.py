"""Which policy a placement was made under: the index answers for pods that a scheduler has bound."""

from __future__ import annotations

from typing import ClassVar

from tests.control.worlds import told

from fathom.cache.indexes import FOR_PODS
from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import POD, Primary, Watch
from fathom.model.objects import Key, lookup
from fathom.model.resources import NODES, PODS
from fathom.schedule.policy_rollout.controller import PolicyRollouts
from fathom.sim.scenarios.scheduling import POLICIES, ROLLOUTS, node, own, pod, run_scheduler
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.world import World


class Reader:
    """Follows pods, with the indexes that controllers have."""

    name = "reader"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(POD, conditions=False, indexes=FOR_PODS),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        return ReconcileResult.never()


def test_the_index_finds_pods_by_the_policy_that_placed_them() -> None:
    async def story(world: World) -> None:
        await world.apply(NODES, node("node-1"))
        await world.apply(POLICIES, own("SchedulingPolicy", "v5", {}))
        run_scheduler(world, "scheduler", names=("default-scheduler",))
        run_controllers(world, "rollouts", PolicyRollouts)
        run_controllers(world, "reader", Reader)
        await world.apply(PODS, pod("before"))
        await world.sleep(5)
        steps = [{"percent": 100, "hold": "1s"}]
        await world.apply(ROLLOUTS, own("PolicyRollout", "r", {"to": "v5", "steps": steps}))
        await world.sleep(30)
        await world.apply(PODS, pod("after"))
        await world.until(
            lambda: all(lookup(one, "spec", "nodeName") for one in world.list("pods")),
            within_s=30,
            what="both have a place",
        )
        await world.sleep(2)
        view = world.state("reader").caches.snapshot()  # type: ignore[attr-defined]  # Its own.
        found = {
            policy: [one["metadata"]["name"] for one in view.by_index("Pod", "policy-revision", policy)]
            for policy in view.values("Pod", "policy-revision")
        }
        assert found == {"builtin": ["before"], "v5": ["after"]}

    told(story)
