"""A scheduler whose view is too old to evict anybody."""

from __future__ import annotations

from tests.control.worlds import told

from fathom.model.objects import Key, lookup
from fathom.model.resources import NODES, PODS
from fathom.sim.scenarios.scheduling import CLASSES, node, pod, run_scheduler
from fathom.sim.world.faults import HoldWatch
from fathom.sim.world.world import World


def test_who_cannot_evict_because_of_a_watch_that_says_nothing_asks_the_server() -> None:
    async def story(world: World) -> None:
        run_scheduler(world, "scheduler")
        await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
        await world.apply(NODES, node("node-1"))
        await world.apply(PODS, pod("victim", cpu="4"))
        await world.sleep(20)
        await world.apply(PODS, pod("important", cpu="4", high=True))
        await world.until(
            lambda: bool(
                lookup(world.get("pods", Key("default", "victim")), "metadata", "deletionTimestamp")
            ),
            within_s=3,
            what="room is made",
        )

    told(
        story, faults=[HoldWatch(at_s=4, target="scheduler", match="disruptionbudgets", for_s=120, times=99)]
    )
