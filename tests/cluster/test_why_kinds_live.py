"""Workloads, nodes, Services and Jobs on a running cluster, each not as wanted: `fathom why` names the cause,
though something else is wrong too, and the change that it proposes is made as it stands."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Cluster, Obj, until
from tests.cluster.programs import deployment, job, pod

from fathom.cli.main import run

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def ask(cluster: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs `fathom` with JSON output: its exit code, and the document."""

    def asked(*words: str) -> tuple[int, Any]:
        capsys.readouterr()
        where = ("-n", kubectl.namespace, "--kubeconfig", str(cluster.data / "kubeconfig"), "-o", "json")
        code = run([*words, *where])
        return code, json.loads(capsys.readouterr().out)

    return asked


def troubled(ask: Ask, cluster: Cluster, subject: str, cause: str) -> Obj:
    """The answer, once it names this cause."""
    answers: list[tuple[int, Obj]] = []

    def named() -> bool:
        answers.append(ask("why", subject))
        return answers[-1][0] == 1 and cause in answers[-1][1]["cause"]

    until(named, lambda: f"{answers[-1:]} {cluster.told()}")
    return answers[-1][1]


def made(kubectl: Kubectl, answer: Obj) -> None:
    """Types the proposed command."""
    environment = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig), "HOME": str(kubectl.home)}
    command = answer["change"]["command"]
    done = subprocess.run(
        command, shell=True, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (command, done.stderr)


def helped(ask: Ask, cluster: Cluster, subject: str) -> None:
    answers: list[tuple[int, Obj]] = []

    def well() -> bool:
        answers.append(ask("why", subject))
        return answers[-1][0] == 0 and bool(answers[-1][1]["asWanted"])

    until(well, lambda: f"{answers[-1:]} {cluster.told()}")


def test_replicas_refused_by_a_quota_come_when_it_is_raised_as_proposed(
    cluster: Cluster, kubectl: Kubectl, ask: Ask
) -> None:
    """The decoy: another quota that is nearly full."""
    kubectl.ok("create quota room --hard=pods=1")
    kubectl.ok("create quota names --hard=count/configmaps=2")
    kubectl.create(deployment("web", replicas=3))
    answer = troubled(ask, cluster, "deployment/web", "2 pods are not created: exceeded quota: room")
    assert "refused by quota" in answer["verdict"]
    until(
        lambda: ask("status", "deployment/web")[1]["pendingReplicas"]["value"] == ["2 not created"],
        cluster.told,
    )
    code, view = ask("status", "deployment/web")
    assert (code, view["lastReason"]["value"]) == (1, "quota"), view
    made(kubectl, answer)
    helped(ask, cluster, "deployment/web")
    assert ask("status", "deployment/web")[0] == 0


def test_a_service_whose_selector_matches_nothing_is_corrected_as_proposed(
    cluster: Cluster, kubectl: Kubectl, ask: Ask
) -> None:
    """The decoy: a pod with other labels that fails."""
    kubectl.create(deployment("web", replicas=1), pod("broken", "false", labels={"app": "other"}))
    kubectl.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "webb"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }
    )
    kubectl.ok("wait deployment/web --for=condition=Available --timeout=60s")
    answer = troubled(ask, cluster, "service/web", "no pod has the labels app=webb; the nearest is pod web-")
    made(kubectl, answer)
    until(lambda: "no pod has the labels" not in ask("why", "service/web")[1]["cause"], cluster.told)


def test_a_cordoned_node_names_its_author_and_is_uncordoned_as_proposed(
    cluster: Cluster, kubectl: Kubectl, ask: Ask
) -> None:
    """The decoy: a taint on it that is there for some pods."""
    kubectl.ok("taint node node-3 pool=batch:NoSchedule")
    kubectl.ok("cordon node-3")
    try:
        answer = troubled(ask, cluster, "node/node-3", "cordoned by ")
        assert answer["verdict"].startswith("is cordoned")
        made(kubectl, answer)
        helped(ask, cluster, "node/node-3")
    finally:
        kubectl.ok("uncordon node-3")
        kubectl.ok("taint node node-3 pool-")


def test_a_suspended_job_is_resumed_as_proposed(cluster: Cluster, kubectl: Kubectl, ask: Ask) -> None:
    kubectl.create(job("later", "true", suspend=True))
    answer = troubled(ask, cluster, "job/later", "spec.suspend is true")
    made(kubectl, answer)
    kubectl.ok("wait job/later --for=condition=Complete --timeout=60s")
    helped(ask, cluster, "job/later")


def test_a_paused_rollout_is_resumed_as_proposed_and_is_listed_as_stuck_meanwhile(
    cluster: Cluster, kubectl: Kubectl, ask: Ask
) -> None:
    kubectl.create(deployment("web", replicas=1), deployment("well", replicas=1))
    kubectl.ok("wait deployment --all --for=condition=Available --timeout=60s")
    kubectl.ok("rollout pause deployment/web")
    kubectl.ok("set env deployment/web LEVEL=2")
    answer = troubled(ask, cluster, "deployment/web", "spec.paused is true")
    code, listed = ask("why")
    names = [item["subject"]["name"] for item in listed["items"]]
    assert (code, "web" in names, "well" in names) == (1, True, False), names
    made(kubectl, answer)
    helped(ask, cluster, "deployment/web")
