"""What `fathom why` says on a running cluster: of a pod that does not exist, of several pods, of a change
that nobody makes. Troubles with their changes: test_pending_troubles_live, test_start_troubles_live."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Cluster, Obj, until
from tests.cluster.programs import deployment, pod
from tests.cluster.troubles import Ask, asking, document, type_command

from fathom.cli.main import run

READY_IN = "--timeout=40s"


class Shell:
    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        self.background: list[subprocess.Popen[bytes]] = []


@pytest.fixture
def ask(cluster: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking(cluster.data / "kubeconfig", kubectl.namespace, capsys)


def test_a_replica_that_a_quota_refuses_is_explained_by_the_name_it_would_have(
    kubectl: Kubectl, ask: Ask
) -> None:
    hard = {"hard": {"requests.cpu": "100m"}}
    kubectl.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": hard})
    kubectl.create(deployment("web", replicas=1, of={"resources": {"requests": {"cpu": "200m"}}}))
    answers: list[Obj] = []

    def is_told() -> bool:
        made = kubectl.json("get replicasets")["items"]
        answers[:] = [document(ask, f"pod/{made[0]['metadata']['name']}-x4k2p")] if made else []
        return bool(answers) and "ResourceQuota small is exhausted" in answers[0]["summary"]

    until(is_told, lambda: str(answers))
    assert "raise requests.cpu to 200m in ResourceQuota small" in answers[0]["summary"]
    type_command(answers[0]["change"]["command"], Shell(kubectl))
    kubectl.ok(f"wait deployment/web --for=condition=Available {READY_IN}")


def test_several_pods_are_explained_at_once_and_a_bare_name_is_enough(
    cluster: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create(pod("well"), pod("ill", "sh", "-c", "exit 3"))
    kubectl.ok(f"wait pod/well --for=condition=Ready {READY_IN}")
    config: list[Any] = ["-n", kubectl.namespace, "--kubeconfig", str(cluster.data / "kubeconfig")]
    until(lambda: run(["why", "pod/ill", *config]) == 1, lambda: capsys.readouterr().out)
    capsys.readouterr()
    assert run(["why", "well", *config]) == 0
    assert capsys.readouterr().out.startswith(f"pod {kubectl.namespace}/well is ready: it runs on node-")
    assert run(["why", "pod/well", "ill", *config]) == 1
    assert capsys.readouterr().out.count(f"pod {kubectl.namespace}/") >= 2
    assert run(["why", "pod/nosuch", *config]) == 1
    assert f"there is no pod {kubectl.namespace}/nosuch, and nothing is on record" in capsys.readouterr().err


def test_what_if_answers_for_a_change_that_nobody_makes(
    cluster: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.create(pod("picky", nodeSelector={"disk": "none"}))
    kubectl.ok(f"wait pod/picky --for=condition=PodScheduled=False {READY_IN}")
    config = ["-n", kubectl.namespace, "--kubeconfig", str(cluster.data / "kubeconfig")]
    labelled = 'node/node-2={"metadata":{"labels":{"disk":"none"}}}'
    capsys.readouterr()
    assert run(["why", "pod/picky", "--what-if", labelled, *config]) == 1
    assert "it fits node-2" in capsys.readouterr().out
    assert run(["why", "pod/picky", *config]) == 1
    assert "didn't match Pod's node affinity/selector" in capsys.readouterr().out
