"""How fast a world runs can be measured anywhere, without a server; and a measured world is a world."""

from __future__ import annotations

import json

import pytest

from fathom.cli.main import run
from fathom.sim.search.bench import Size, measure


def test_every_pod_runs_and_every_figure_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "sim", "--nodes", "2", "--nodes", "3", "--seconds", "100", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["bench"] == "sim"
    assert [(one["nodes"], one["pods"], one["running"]) for one in document["clusters"]] == [
        (2, 20, 20),
        (3, 30, 30),
    ]
    assert document["machine"]["cores"] > 0
    for one in document["clusters"]:
        assert one["sim_s"] > 100
        assert min(one[f"{part}_ratio"] for part in ("sim", "cpu", "filling", "steady")) > 1


def test_a_person_reads_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "sim", "--nodes", "2", "--seconds", "100"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["nodes", "pods"], ["2", "20"]]


def test_a_cluster_without_nodes_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "sim", "--nodes", "0"]) == 2
    assert "at least one node" in capsys.readouterr().err


def test_the_same_cluster_is_the_same_run() -> None:
    first, second, other = (measure(Size(2, 100.0), seed=seed).trace for seed in ("1", "1", "2"))
    assert first == second
    assert first != other


def test_a_fork_of_a_settled_cluster_writes_heartbeats_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "fork", "--nodes", "3", "--pods", "25", "--minutes", "10", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["bench"], document["nodes"], document["pods"]) == ("fork", 3, 25)
    assert document["writes"] == {}
    assert document["heartbeats"] > 100
    assert document["sim_s"] >= 600


def test_more_pods_than_the_nodes_of_a_fork_hold_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "fork", "--nodes", "2", "--pods", "161"]) == 2
    assert "2 nodes have room for 160 pods" in capsys.readouterr().err
