"""The scheduling bench: what it counts, and that a small run of it comes out whole."""

from __future__ import annotations

import msgspec
import pytest

from fathom.bench.errors import BadTarget
from fathom.bench.schedule import ScheduleLoad, as_json, as_table, median_rate, run_schedule
from fathom.bench.session import Against
from fathom.bench.workloads import WORKLOADS

S = 1_000_000_000


def test_the_median_second_leaves_out_the_last_broken_one() -> None:
    seen = [
        *(S // 10 for _ in range(5)),
        *(S + 1 for _ in range(9)),
        *(2 * S + 1 for _ in range(7)),
        3 * S + 5,
    ]
    assert median_rate(0, seen) == 7.0


def test_a_short_run_is_taken_as_a_whole() -> None:
    assert median_rate(S, [S + S // 2] * 10) == 20.0


def test_a_workload_that_does_not_exist_is_said_so() -> None:
    with pytest.raises(BadTarget, match="no workload 'odd': there are basic, spread"):
        run_schedule(Against(), ScheduleLoad("odd", 1, 0, 1, 1))


@pytest.mark.parametrize("workload", ["basic", "churn"])
def test_a_small_run_binds_every_pod_and_says_what_it_took(workload: str) -> None:
    result = run_schedule(Against(), ScheduleLoad(workload, 10, 5, 40, 4))
    assert result.pods_per_s > 0
    assert result.conflicts == 0
    assert result.attempts is not None
    assert result.attempts >= 45
    assert result.recording is not None
    assert 0 < result.recording.bytes_per_decision < 3000  # Few decisions share a table here.
    found = msgspec.json.decode(as_json(result))
    assert isinstance(found["pods_per_s"], float)
    assert result.workload in as_table(result)


def test_workloads_have_the_shapes_of_scheduler_perf() -> None:
    for workload in WORKLOADS.values():
        assert workload.node(0)["status"]["allocatable"] == {"cpu": "4", "memory": "32Gi", "pods": "110"}
    requests = WORKLOADS["basic"].pod(0)["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "100m", "memory": "500Mi"}
