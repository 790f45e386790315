"""From a Deployment to its running pod, on a live cluster: each decision with its links, joined by ids."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.cluster.living import Cluster, deployment, until

Document = dict[str, Any]

# Who decides, and the kind that it writes; each is woken by what the one before wrote.
STEPS = (
    ("deployments", "replicasets.apps"),
    ("replicasets", "pods"),
    ("scheduler", "pods"),
    ("agent", "pods"),
)


def timeline(cluster: Cluster, namespace: str, subject: str, *words: str) -> Document:
    command = [sys.executable, "-m", "fathom.cli", "timeline", subject, "-n", namespace, "-o", "json"]
    done = subprocess.run(
        [*command, *words, "--kubeconfig", str(cluster.data / "kubeconfig")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    shown: Document = json.loads(done.stdout)
    return shown


@pytest.mark.live
def test_a_deployments_timeline_leads_from_its_creation_to_the_report_of_its_agent(
    cluster: Cluster, namespace: str
) -> None:
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("paths", 1))
    shown: list[Document] = [{}]

    def leads_to_the_agent() -> bool:
        shown[0] = timeline(cluster, namespace, "deploy/paths")
        return len(walk(shown[0])) == len(STEPS)

    until(leads_to_the_agent, lambda: told(shown[0]))
    for decision, (controller, _) in zip(walk(shown[0]), STEPS, strict=True):
        path = decision["path"]
        assert decision["object"]["uid"]
        assert path["observedGeneration"] == decision["generation"] > 0, controller
        assert path["queuedMs"] >= 0
        assert all(read["revision"] > 0 for read in path["read"].values())
        assert path["read"]
        assert any(result.startswith("committed at ") for result in path["results"]), controller
        assert controller != "scheduler" or (path["scores"] and path["condition"] == "PodScheduled=True")


def told(shown: Document) -> str:
    texts = [f"{entry['id']} {entry['actor']} {entry['text']}" for entry in shown.get("entries", ())]
    ends = [f"{edge['cause']} {edge['kind']} {edge['effect']}" for edge in shown.get("edges", ())]
    return "\n".join([str(len(walk(shown))), *texts, *ends, str(shown.get("gaps"))])


def walk(shown: Document) -> list[Document]:
    """The decisions along the way, as far as edges lead."""
    entries = {entry["id"]: entry for entry in shown.get("entries", ())}
    edges = list(shown.get("edges", ()))
    found: list[Document] = []
    reached = {entry["id"] for entry in entries.values() if entry["text"] == "creates deployment paths"}
    for controller, resource in STEPS:
        mine = [
            entries[id_] for id_ in woken_by(reached, entries, edges) if entries[id_]["actor"] == controller
        ]
        wrote = [
            (decision, edge["effect"])
            for decision in mine
            for edge in edges
            if edge["cause"] == decision["id"]
            and edge["kind"] == "wrote"
            and entries[edge["effect"]]["object"]["resource"] == resource
        ]
        if not wrote:
            break
        found.append(wrote[0][0])
        reached = {effect for _, effect in wrote}
    return found


def woken_by(reached: set[str], entries: dict[str, Document], edges: list[Document]) -> set[str]:
    """Decisions that writes woke, and those that went on when such a decision had been held."""
    woken: set[str] = set()
    before: set[str] = set(reached)
    while before:
        after = {
            f"decision:{entries[edge['effect']]['ids'].get('decision')}"
            for edge in edges
            if edge["cause"] in before and edge["kind"] in {"woke", "led to"}
        }
        before = {id_ for id_ in after if id_ in entries} - woken
        woken |= before
    return woken
