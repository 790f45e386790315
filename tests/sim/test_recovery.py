"""safe-recovery: whoever dies after whichever of its writes, the override ends and its end is proven.

A seed draws what becomes of the replicas at the end; each takes a quarter of an hour of CPU for all deaths.
FATHOM_RECOVERY_SEED=2 runs another.
"""

from __future__ import annotations

import os

import pytest
from tests.deep import first_few
from tests.sim.crashing import survived

from fathom.sim.scenarios import SCENARIOS
from fathom.sim.scenarios.scheduling import SCHEDULERS
from fathom.sim.scenarios.staff import AGENT, MANAGERS

RECOVERY = SCENARIOS["safe-recovery"]
SEED = os.environ.get("FATHOM_RECOVERY_SEED", "1")


@pytest.mark.parametrize(
    ("processes", "numbers"),
    first_few([(("api-1",), (80,)), ((AGENT,), (4,)), (MANAGERS, (60,)), (SCHEDULERS, (6,))], 2),
)
def test_a_death_after_some_writes_of_a_recovery_leaves_nothing_behind(
    processes: tuple[str, ...], numbers: tuple[int, ...]
) -> None:
    """The leader of each kind dies; the other one writes nothing before that."""
    assert sum(survived(RECOVERY, process, numbers, seed="1") for process in processes) >= len(numbers)


@pytest.mark.full
@pytest.mark.parametrize("process", [*MANAGERS, *SCHEDULERS, "api-1", AGENT])
def test_a_death_after_any_write_of_a_recovery_leaves_nothing_behind(process: str) -> None:
    assert survived(RECOVERY, process, seed=SEED) >= 1
