"""Overrides in the world, deeper: whoever dies after whichever write, and a thousand pods at one end."""

from __future__ import annotations

from itertools import count

import pytest
from tests.sim.crashing import survived

from fathom.sim.report.kept_runs import must_hold
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.scenarios.scheduling import SCHEDULERS
from fathom.sim.scenarios.staff import MANAGERS
from fathom.sim.world.scenario import RunPlan


@pytest.mark.parametrize(("processes", "numbers"), [(MANAGERS, (9,)), (("api-1",), (70,))])
@pytest.mark.full
def test_a_death_after_some_writes_of_a_forgotten_override_leaves_nothing_behind(
    processes: tuple[str, ...], numbers: tuple[int, ...]
) -> None:
    """The leader dies; the other one writes nothing before that."""
    scenario = SCENARIOS["forgotten-override"]
    assert sum(survived(scenario, process, numbers, seed="1") for process in processes) >= len(numbers)


@pytest.mark.full
@pytest.mark.parametrize("process", [*MANAGERS, *SCHEDULERS, "api-1"])
def test_a_death_after_every_third_write_of_a_forgotten_override_leaves_nothing_behind(
    process: str,
) -> None:
    """Each run is told twice, with the override and without it."""
    assert survived(SCENARIOS["forgotten-override"], process, count(1, 3), seed="1") >= 1


@pytest.mark.full
def test_a_thousand_pods_are_woken_and_moved_at_the_end_of_an_override() -> None:
    scenario = SCENARIOS["undo-of-a-thousand"]
    must_hold(scenario, RunPlan(scenario=scenario.name, seed="1", scale=1000))
