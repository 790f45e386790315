"""The bench of questions: a small run of it comes out whole, and a wrong answer is no figure."""

from __future__ import annotations

import msgspec
import pytest

from fathom.bench.asked_cluster import WhyLoad
from fathom.bench.errors import BadTarget
from fathom.bench.why import as_json, as_table, run_why


def test_loads_that_have_no_room_are_refused_before_anything_starts() -> None:
    with pytest.raises(BadTarget, match="2 nodes have room for 80 pods"):
        run_why(WhyLoad(nodes=2, pods=90, waiting=5))
    with pytest.raises(BadTarget, match="some pods must have a node"):
        run_why(WhyLoad(nodes=2, pods=5, waiting=5))


@pytest.mark.full
def test_a_small_run_answers_every_question_and_says_what_it_took() -> None:
    load = WhyLoad(nodes=3, pods=20, waiting=10, decisions=200, writes=300, questions=4)
    result = run_why(load)
    assert result.decisions == 200
    assert 0 < result.client_cpu_ms.p50 <= result.client_cpu_ms.max
    assert result.client_cpu_ms.p50 <= result.wall_ms.max
    assert set(result.server_cpu_ms) == set(result.idle_cores) == {"api", "scheduler"}
    assert 0 < result.bytes_per_decision.stored < result.bytes_per_decision.written
    assert msgspec.json.decode(as_json(result))["parameters"]["questions"] == 4
    assert "200 decisions on record, 20 pods, 3 nodes" in as_table(result)
