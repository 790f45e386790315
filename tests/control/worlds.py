"""Simulated worlds for the kit's tests: a story, told once with scripted faults, with everything checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from fathom.sim.report.chronicle import Chronicle
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import RunPlan, Scenario, ScenarioRun
from fathom.sim.world.violation import Violation
from fathom.sim.world.world import World

Story = Callable[[World], Awaitable[None]]


def violation_of(
    story: Story,
    *,
    seed: str = "1",
    faults: Sequence[AnyFault] = (),
    servers: int = 1,
    checkers: Sequence[Checker] = (),
    chronicle: Chronicle | None = None,
) -> Violation | None:
    scenario = Scenario(
        name="test",
        about="",
        story=story,
        menu=Menu(processes=("nobody",)),
        servers=servers,
        checkers=lambda: checkers,
    )
    plan = RunPlan(scenario="test", seed=seed, faults=tuple(faults))
    return ScenarioRun(scenario, plan, chronicle=chronicle).run().violation


def told(
    story: Story,
    *,
    seed: str = "1",
    faults: Sequence[AnyFault] = (),
    servers: int = 1,
    checkers: Sequence[Checker] = (),
    chronicle: Chronicle | None = None,
) -> None:
    """It must come to a good end: no assertion, no invariant broken, no exception unnoticed."""
    found = violation_of(
        story, seed=seed, faults=faults, servers=servers, checkers=checkers, chronicle=chronicle
    )
    assert found is None, found
