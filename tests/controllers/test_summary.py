from __future__ import annotations

from fathom.controllers.cluster_summary import summary
from fathom.model.objects import Obj


def node(ready: str) -> Obj:
    return {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def pod(phase: str) -> Obj:
    return {"metadata": {"name": "p"}, "status": {"phase": phase}}


def test_nodes_and_living_pods_are_counted() -> None:
    pods = [pod("Running"), pod("Running"), pod("Pending"), pod("Succeeded"), pod("Failed"), pod("Unknown")]
    assert summary([node("True"), node("Unknown")], pods) == {
        "nodes": 2,
        "ready": 1,
        "pods": 4,
        "running": 2,
        "pending": 1,
    }
