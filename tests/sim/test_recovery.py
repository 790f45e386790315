"""safe-recovery: whoever dies after whichever of its writes, the override ends and its end is proven."""

from __future__ import annotations

import pytest
from tests.sim.crashing import survived

from fathom.sim.scenarios import SCENARIOS
from fathom.sim.scenarios.scheduling import SCHEDULERS
from fathom.sim.scenarios.staff import MANAGERS

RECOVERY = SCENARIOS["safe-recovery"]


@pytest.mark.parametrize(
    ("process", "numbers"), [(MANAGERS[0], (12, 31, 50)), (SCHEDULERS[0], (3, 9)), ("api-1", (60,))]
)
def test_a_death_after_some_writes_of_a_recovery_leaves_nothing_behind(
    process: str, numbers: tuple[int, ...]
) -> None:
    assert survived(RECOVERY, process, numbers, seed="2") <= len(numbers)


@pytest.mark.full
@pytest.mark.parametrize("seed", ["1", "2", "3"])
@pytest.mark.parametrize("process", [*MANAGERS, *SCHEDULERS, "api-1"])
def test_a_death_after_any_write_of_a_recovery_leaves_nothing_behind(process: str, seed: str) -> None:
    survived(RECOVERY, process, seed=seed)
