"""What `fathom why` says on a running cluster of pods that are not well; and the change that it proposes,
made as it is written."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Cluster, Obj, until
from tests.cluster.programs import container, deployment, own, pod

from fathom.cli.main import run

READY_IN = "--timeout=40s"

Ask = Callable[[str], Obj]


@pytest.fixture
def ask(cluster: Cluster, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The document about a pod, with the exit code."""

    def document(name: str) -> Obj:
        capsys.readouterr()
        words = ["why", f"pod/{name}", "-n", kubectl.namespace, "-o", "json"]
        code = run([*words, "--kubeconfig", str(cluster.data / "kubeconfig")])
        answer: Obj = json.loads(capsys.readouterr().out)
        assert code == (0 if answer["asWanted"] else 1)
        return answer

    return document


class Trouble(msgspec.Struct, frozen=True):
    pod: Obj
    names: tuple[str, ...]  # In the first line.
    fix: tuple[str, str] | None = (
        None  # In the command: a word to fill in, and what with. None: it is not run.
    )


def probe(command: str) -> Obj:
    return {"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, "failureThreshold": 1}


def from_key(kind: str, name: str, key: str) -> Obj:
    return {"env": [{"name": "LEVEL", "valueFrom": {kind: {"name": name, "key": key}}}]}


HUNGRY = "import time; x = bytearray(100 << 20); time.sleep(1000)"
LIMIT = {"resources": {"limits": {"memory": "64Mi"}}}

TROUBLES: dict[str, Trouble] = {
    "command": Trouble(
        pod("command", "nosuch-program"),
        ("the command 'nosuch-program' of container main cannot be started", "correct the command"),
        ('["PROGRAM"]', '["sleep","1000"]'),
    ),
    "config": Trouble(
        pod("config", of=from_key("configMapKeyRef", "settings", "LEVEL")),
        (
            "needs key LEVEL of ConfigMap settings, which does not exist",
            "create ConfigMap settings with key LEVEL",
        ),
        ("VALUE", "3"),
    ),
    "secret": Trouble(
        pod("secret", of=from_key("secretKeyRef", "login", "TOKEN")),
        ("needs key TOKEN of Secret login, which does not exist",),
        ("VALUE", "t"),
    ),
    "image": Trouble(
        {**pod("image"), "spec": {"containers": [{"name": "main", "image": "nosuch:1"}]}},
        ("image 'nosuch:1' of container main cannot be pulled", "correct the image of container main"),
    ),
    "readiness": Trouble(
        pod("readiness", of={"readinessProbe": probe("echo not yet; exit 1")}),
        ("the readiness probe of container main fails",),
    ),
    "liveness": Trouble(
        pod("liveness", of={"livenessProbe": probe("echo stuck; exit 1")}),
        ("the liveness probe of container main fails, so it is restarted",),
    ),
    "crash": Trouble(pod("crash", "sh", "-c", "exit 3"), ("container main ends with code 3",)),
    "memory": Trouble(
        pod("memory", "python3", "-c", HUNGRY, of=LIMIT),
        ("out of memory" if os.geteuid() else "memory", "limit is 64Mi", "above 64Mi"),
        ("128Mi", "256Mi"),
    ),
    "init": Trouble(
        pod("init", initContainers=[{**container("sh", "-c", "exit 5"), "name": "setup"}]),
        ("container setup ends with code 5",),
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_a_pod_that_cannot_start_is_told_why_and_the_change_makes_it_ready(
    name: str, kubectl: Kubectl, ask: Ask, cluster: Cluster
) -> None:
    trouble = TROUBLES[name]
    kubectl.create(trouble.pod)
    answers: list[Obj] = []

    def is_told() -> bool:
        answers[:] = [ask(name)]
        return all(word in answers[0]["summary"] for word in trouble.names)

    until(is_told, lambda: f"{answers}\n{kubectl.run('get pod -o yaml').out[-3000:]}")
    assert not answers[0]["asWanted"]
    assert answers[0]["stage"] == "not-ready"
    if trouble.fix is not None:
        command = answers[0]["change"]["command"].replace(*trouble.fix)
        typed(command, kubectl)
        kubectl.ok(f"wait pod/{name} --for=condition=Ready {READY_IN}")
        until(lambda: ask(name)["asWanted"], lambda: str(ask(name)))


def typed(command: str, kubectl: Kubectl) -> None:
    """As a person types it into a shell."""
    directory = os.path.dirname(kubectl.binary)
    environment = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig), "HOME": str(kubectl.home)}
    environment["PATH"] = f"{directory}:{environment['PATH']}"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"


PENDING: dict[str, tuple[Obj, str]] = {
    "cpu": (pod("cpu", of={"resources": {"requests": {"cpu": "900"}}}), "lower cpu of container main to"),
    "selector": (pod("selector", nodeSelector={"disk": "none"}), "drop disk=none from the nodeSelector"),
    "gate": (
        pod("gate", schedulingGates=[{"name": "example.com/ready"}]),
        "remove the scheduling gate example.com/ready",
    ),
}


@pytest.mark.parametrize("name", PENDING)
def test_the_change_that_is_proposed_for_a_waiting_pod_makes_it_ready(
    name: str, kubectl: Kubectl, ask: Ask
) -> None:
    made, change = PENDING[name]
    kubectl.create(made)
    kubectl.ok(f"wait pod/{name} --for=condition=PodScheduled=False {READY_IN}")
    answer = ask(name)
    assert change in answer["summary"]
    typed(answer["change"]["command"], kubectl)
    kubectl.ok(f"wait pod/{name} --for=condition=Ready {READY_IN}")


@pytest.fixture
def cordoned(kubectl: Kubectl) -> Iterator[str]:
    kubectl.ok("cordon node-3")
    yield "node-3"
    kubectl.run("uncordon node-3")


def test_a_cordon_is_lifted_by_the_command_that_is_proposed(
    kubectl: Kubectl, ask: Ask, cordoned: str
) -> None:
    """Decoy: it would not fit the other nodes, which it did not ask for."""
    kubectl.create(pod("shut-out", nodeSelector={"kubernetes.io/hostname": cordoned}))
    kubectl.ok(f"wait pod/shut-out --for=condition=PodScheduled=False {READY_IN}")
    answer = ask("shut-out")
    assert f"Change: kubectl uncordon {cordoned} (a cluster operator)" in answer["summary"]
    typed(answer["change"]["command"], kubectl)
    kubectl.ok(f"wait pod/shut-out --for=condition=Ready {READY_IN}")


@pytest.fixture
def tainted(kubectl: Kubectl) -> Iterator[str]:
    kubectl.ok("taint node node-3 spot=yes:NoSchedule")
    yield "node-3"
    kubectl.run("taint node node-3 spot-")


def test_a_taint_is_tolerated_in_place(kubectl: Kubectl, ask: Ask, tainted: str) -> None:
    kubectl.create(pod("kept-off", nodeSelector={"kubernetes.io/hostname": tainted}))
    kubectl.ok(f"wait pod/kept-off --for=condition=PodScheduled=False {READY_IN}")
    answer = ask("kept-off")
    assert "tolerate the taint spot=yes:NoSchedule" in answer["summary"]
    typed(answer["change"]["command"], kubectl)
    kubectl.ok(f"wait pod/kept-off --for=condition=Ready {READY_IN}")


def test_a_tenants_quota_is_raised_by_the_command_that_is_proposed(kubectl: Kubectl, ask: Ask) -> None:
    space, shared = kubectl.namespace, kubectl.within("")
    shared.create(own("TenantQuota", space, limits=[{"resources": {"pods": 1}}]))
    kubectl.create(pod("first"))
    kubectl.ok(f"wait pod/first --for=condition=Ready {READY_IN}")
    kubectl.create(pod("second"))
    kubectl.ok(f"wait pod/second --for=condition=PodScheduled=False {READY_IN}")
    answer = ask("second")
    assert f"Change: raise pods of quota/{space} from 1 to 2" in answer["summary"]
    typed(answer["change"]["command"], kubectl)
    kubectl.ok(f"wait pod/second --for=condition=Ready {READY_IN}")
    shared.ok(f"delete tenantquota {space}")


def test_an_override_is_ended_by_the_command_that_is_proposed(kubectl: Kubectl, ask: Ask) -> None:
    kubectl.create(own("SchedulerOverride", "calm", target="workload/held", reason="a drill",
                       expiresAfter="10m", changes={"avoidZones": ["a", "b"]}))  # fmt: skip
    kubectl.create(pod("held"))
    kubectl.ok(f"wait pod/held --for=condition=PodScheduled=False {READY_IN}")
    answer = ask("held")
    assert f"end override {kubectl.namespace}/calm" in answer["summary"]
    typed(answer["change"]["command"], kubectl)
    kubectl.ok(f"wait pod/held --for=condition=Ready {READY_IN}")


def test_a_replica_that_a_quota_refuses_is_explained_by_the_name_it_would_have(
    kubectl: Kubectl, ask: Ask
) -> None:
    hard = {"hard": {"requests.cpu": "100m"}}
    kubectl.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": hard})
    kubectl.create(deployment("web", replicas=1, of={"resources": {"requests": {"cpu": "200m"}}}))
    answers: list[Obj] = []

    def is_told() -> bool:
        made = kubectl.json("get replicasets")["items"]
        answers[:] = [ask(f"{made[0]['metadata']['name']}-x4k2p")] if made else []
        return bool(answers) and "ResourceQuota small is exhausted" in answers[0]["summary"]

    until(is_told, lambda: str(answers))
    assert "raise requests.cpu to 200m in ResourceQuota small" in answers[0]["summary"]
    typed(answers[0]["change"]["command"], kubectl)
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
