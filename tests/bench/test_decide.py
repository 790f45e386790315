"""The decision-only benchmark measures what it says, and refuses to report what went wrong."""

from __future__ import annotations

import msgspec
import pytest

from fathom.bench.decide import DECIDED, DecideLoad, ScaleLoad, as_json, as_table, run_decide, run_scale
from fathom.bench.errors import BenchFailed


def test_every_workload_is_decided_and_has_a_rate() -> None:
    result = run_decide(DecideLoad(nodes=60, init_pods=10, pods=40))
    assert tuple(one.workload for one in result.rates) == tuple(DECIDED)
    assert all(one.decisions_per_s > 0 and one.first_ms > 0 for one in result.rates)
    assert msgspec.json.decode(as_json(result))["bench"] == "decide"
    assert len(as_table(result).splitlines()) == len(DECIDED)


def test_a_growing_cluster_has_a_point_for_each_step() -> None:
    result = run_scale(ScaleLoad(nodes=50, pods=600, shapes=3, points=2))
    assert [one.pods for one in result.curve] == [512, 600]
    assert (result.pods, result.curve[-1].rss_mb > 0) == (600, True)
    assert as_table(result).count("\n") == 3


def test_a_pod_without_a_node_is_not_reported_as_speed() -> None:
    with pytest.raises(BenchFailed, match="found no node: 0/1 nodes are available: 1 Insufficient cpu"):
        run_decide(DecideLoad(nodes=1, init_pods=0, pods=60, workloads=("basic",)))


def test_an_unknown_workload_is_named() -> None:
    with pytest.raises(BenchFailed, match="unknown workload 'nonsense'"):
        run_decide(DecideLoad(workloads=("nonsense",)))
