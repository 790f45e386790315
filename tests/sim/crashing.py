"""Somebody dies after each of its writes, one run for each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from fathom.sim.report.kept_runs import must_hold
from fathom.sim.world.faults import CrashAtWrite
from fathom.sim.world.scenario import RunPlan, Scenario, sweep


def survived(
    scenario: Scenario, process: str, numbers: Iterable[int] | None = None, *, seed: str = "0"
) -> int:
    """How many of its writes it can die after, and the story still holds. All of them, where no numbers are
    given: until there is no such write before the faults of the story are over."""
    deaths = 0
    for number in numbers or count(1):
        crash = CrashAtWrite(at_s=0.0, target=process, times=number, for_s=1.0)
        result = must_hold(scenario, RunPlan(scenario=scenario.name, seed=seed, faults=(crash,)))
        sweep()
        if not any("crash-at-write" in site for site in result.fired):
            break
        deaths += 1
    return deaths
