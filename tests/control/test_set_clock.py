"""A key waits for a time of day, reckoned by a wall clock that is then set right."""

from __future__ import annotations

from typing import ClassVar

import pytest

from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, Primary, Watch
from fathom.model.objects import Key
from fathom.model.times import SECOND_NS
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import Skew
from fathom.sim.world.scenario import RunPlan, scenario, tell
from fathom.sim.world.world import World

DUE_S, LATE_S = 60.0, 6.0


class Waiter:
    """Waits for a moment that every reader knows, as that at which a Job is removed."""

    name = "waiter"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(CONFIG_MAP, conditions=False),)
    due_ns: ClassVar[int] = 0
    done_ns: ClassVar[list[int]] = []

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        left_s = (Waiter.due_ns - self._kit.now_ns()) / SECOND_NS
        if left_s > 0:
            return ReconcileResult.in_s(left_s, "it is due")
        self.done_ns.append(self._kit.now_ns())
        return ReconcileResult.never()


@scenario(Menu(processes=("manager",), most=0))
async def waiting(world: World) -> None:
    """A controller begins to wait while its clock is wrong; then all clocks are right."""
    engine = world.engine
    Waiter.due_ns = engine.epoch_ns + engine.now_ns + round(DUE_S * SECOND_NS)
    Waiter.done_ns.clear()
    run_controllers(world, "manager", Waiter)
    await world.sleep(1)
    await world.apply(CONFIG_MAP.resource, {"metadata": {"name": "one"}})
    await world.sleep(10)
    world.heal()
    await world.sleep(DUE_S)
    assert Waiter.done_ns, "it still waits"
    assert Waiter.done_ns[0] - Waiter.due_ns < LATE_S * SECOND_NS


@pytest.mark.parametrize("skew_s", [-40.0, -400.0])
def test_who_waits_for_a_time_looks_again_when_the_clock_is_set(skew_s: float) -> None:
    faults = (Skew(at_s=0.5, target="manager", skew_s=skew_s),)
    assert tell(waiting, RunPlan(scenario="waiting", seed="1", faults=faults)).violation is None
