"""Pairs of runs without and with recording: their order, and what is said about them."""

from __future__ import annotations

import msgspec
import pytest

from fathom.bench.recording_cost import as_json, as_table, run_pairs
from fathom.bench.result import CoreUse, Server, this_machine
from fathom.bench.schedule import JOURNAL, NOTHING, TAPE, ScheduleLoad, ScheduleResult, run_schedule
from fathom.bench.session import Against

LOAD = ScheduleLoad("basic", 10, 5, 40, 4)


def test_the_order_changes_from_pair_to_pair_and_each_pair_is_compared() -> None:
    order: list[str] = []
    rates = iter([1000.0, 990.0, 950.0, 1000.0, 1000.0, 1010.0])

    def run(against: Against, load: ScheduleLoad) -> ScheduleResult:
        order.append(load.recording)
        return ScheduleResult(
            workload="basic",
            pods_per_s=next(rates),
            pods_per_s_p50=0.0,
            create_per_s=0.0,
            cores=CoreUse(0.1, 0.9, 0.3),
            scheduler_us_per_pod=100.0 if load.recording == NOTHING else 104.0,
            server_us_per_pod=100.0,
            parameters={},
            machine=this_machine(),
            server=Server("fathom", True),
        )

    cost = run_pairs(Against(), LOAD, 3, run)
    assert order == [NOTHING, JOURNAL, JOURNAL, NOTHING, NOTHING, JOURNAL]
    assert cost.slower_percent_by_pair == [1.0, 5.0, -1.0]
    assert msgspec.to_builtins(cost.slower_percent) == {"median": 1.0, "min": -1.0, "max": 5.0}
    assert (cost.slower_percent_mean, cost.slower_percent_error) == (1.67, 1.76)
    assert cost.slower_percent_undisturbed == -1.0  # 1010 against 1000.
    assert cost.more_cpu_percent.median == 2.0
    assert cost.scheduler_us_with == [104.0, 104.0, 104.0]
    assert msgspec.json.decode(as_json(cost))["pods_per_s_with"] == [990.0, 950.0, 1010.0]
    assert "1.0 % (-1.0 to 5.0)" in as_table(cost)


@pytest.mark.parametrize("recording", [NOTHING, TAPE])
@pytest.mark.full
def test_a_scheduler_binds_every_pod_whatever_it_records(recording: str) -> None:
    result = run_schedule(Against(), msgspec.structs.replace(LOAD, recording=recording))
    assert result.pods_per_s > 0
    assert (result.attempts is None) == (recording == NOTHING)
    assert (result.recording is None) == (recording == NOTHING)
    assert result.scheduler_us_per_pod is not None
    assert result.scheduler_us_per_pod > 0
