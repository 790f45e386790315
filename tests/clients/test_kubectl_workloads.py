"""Workloads as people run them with kubectl, by the real controllers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.clients.kubectl import Kubectl, eventually
from tests.clients.objects import deployment, service
from tests.clients.running import Server, running
from tests.clients.workloads import NODE, Machines, controllers

pytestmark = pytest.mark.kubectl


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Not the one that other tests share: there, nothing happens by itself."""
    folder = tmp_path_factory.mktemp("workloads")
    with running(folder) as started:
        started.request("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
        room = {"cpu": "100", "memory": "1Ti", "pods": "1000"}
        started.patch(f"/api/v1/nodes/{NODE}/status", {"status": {"capacity": room, "allocatable": room}})
        with controllers(started, folder / "controllers.log"), Machines(started):
            yield started


ROLLED_OUT = 'deployment "web" successfully rolled out'
STATUS = "rollout status deploy/web --timeout=30s"


def image(kubectl: Kubectl) -> str:
    return kubectl.value("get deploy web", ".spec.template.spec.containers[0].image")


def test_a_deployment_is_rolled_out_scaled_and_taken_away(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web", replicas=3))
    assert kubectl.ok(STATUS).splitlines()[-1] == ROLLED_OUT
    kubectl.ok("wait --for=condition=Available deploy/web --timeout=30s")
    kubectl.ok("scale deploy/web --replicas=5")
    assert kubectl.ok(STATUS).splitlines()[-1] == ROLLED_OUT
    (shown,) = kubectl.rows("get deploy web")
    assert (shown["READY"], shown["UP-TO-DATE"], shown["AVAILABLE"]) == ("5/5", "5", "5")
    kubectl.ok("scale deploy/web --replicas=1")
    eventually(lambda: len(kubectl.json("get pods")["items"]) == 1)
    kubectl.ok("delete deploy web")
    eventually(lambda: not kubectl.json("get pods,replicasets")["items"], seconds=20)


def test_a_rollout_has_a_history_and_can_be_undone(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web", replicas=3, image="nginx:1"))
    kubectl.ok(STATUS)
    kubectl.ok("set image deploy/web main=nginx:2")
    assert kubectl.ok(STATUS).splitlines()[-1] == ROLLED_OUT
    lines = [line.split()[0] for line in kubectl.ok("rollout history deploy/web").splitlines() if line]
    assert lines == ["deployment.apps/web", "REVISION", "1", "2"]
    assert kubectl.ok("rollout undo deploy/web") == "deployment.apps/web rolled back\n"
    assert kubectl.ok(STATUS).splitlines()[-1] == ROLLED_OUT
    assert image(kubectl) == "nginx:1"
    lines = [line.split()[0] for line in kubectl.ok("rollout history deploy/web").splitlines() if line]
    assert lines == ["deployment.apps/web", "REVISION", "2", "3"]

    def images() -> set[str]:
        return {pod["spec"]["containers"][0]["image"] for pod in kubectl.json("get pods")["items"]}

    eventually(lambda: images() == {"nginx:1"})  # Pods of the old revision are listed while they end.


def test_a_paused_rollout_waits_until_it_is_resumed(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web", replicas=2, image="nginx:1"))
    kubectl.ok(STATUS)
    kubectl.ok("rollout pause deploy/web")
    kubectl.ok("set image deploy/web main=nginx:2")
    kubectl.ok("scale deploy/web --replicas=3")
    eventually(lambda: len(kubectl.json("get pods")["items"]) == 3)
    assert len(kubectl.json("get replicasets")["items"]) == 1
    kubectl.ok("rollout resume deploy/web")
    assert kubectl.ok(STATUS).splitlines()[-1] == ROLLED_OUT
    assert len(kubectl.json("get replicasets")["items"]) == 2


@pytest.mark.full
def test_a_rollout_that_makes_no_progress_says_so_and_keeps_what_is_healthy(kubectl: Kubectl) -> None:
    made = deployment("web", replicas=4, image="nginx:1")
    made["spec"]["progressDeadlineSeconds"] = 2
    kubectl.create(made)
    kubectl.ok(STATUS)
    kubectl.ok("set image deploy/web main=broken:2")
    failed = kubectl.run(STATUS)
    assert (failed.code, failed.err) == (1, 'error: deployment "web" exceeded its progress deadline\n')
    assert int(kubectl.value("get deploy web", ".status.availableReplicas")) >= 3
    kubectl.ok("rollout undo deploy/web")
    assert kubectl.ok(STATUS).splitlines()[-1] == ROLLED_OUT


@pytest.mark.full
def test_a_failed_rollout_goes_back_by_itself_where_that_is_asked_for(kubectl: Kubectl) -> None:
    made = deployment("web", replicas=2, image="nginx:1")
    made["spec"]["progressDeadlineSeconds"] = 2
    made["metadata"]["annotations"] = {"fathom.dev/auto-revert": "true"}
    kubectl.create(made)
    kubectl.ok(STATUS)
    kubectl.ok("set image deploy/web main=broken:2")
    eventually(lambda: image(kubectl) == "nginx:1", seconds=20)
    assert kubectl.ok(STATUS).splitlines()[-1] == ROLLED_OUT
    assert "exceeded its progress deadline" in kubectl.value(
        "get deploy web", ".metadata.annotations.fathom\\.dev/reverted-from"
    )


def test_recreate_never_has_both_revisions_at_once(kubectl: Kubectl) -> None:
    made = deployment("web", replicas=2, image="nginx:1")
    made["spec"]["strategy"] = {"type": "Recreate"}
    kubectl.create(made)
    kubectl.ok(STATUS)
    kubectl.ok("set image deploy/web main=nginx:2")
    seen: set[frozenset[str]] = set()

    def is_over() -> bool:
        pods = kubectl.json("get pods")["items"]
        seen.add(frozenset(pod["spec"]["containers"][0]["image"] for pod in pods))
        return kubectl.run("rollout status deploy/web --watch=false").out.strip() == ROLLED_OUT

    eventually(is_over, seconds=20)
    assert frozenset({"nginx:1", "nginx:2"}) not in seen


def test_a_service_has_the_addresses_of_ready_pods(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web", replicas=2), service("web"))
    kubectl.ok(STATUS)

    def addresses() -> list[str]:
        slices = kubectl.json("get endpointslices -l kubernetes.io/service-name=web")["items"]
        return sorted(one["addresses"][0] for part in slices for one in part.get("endpoints") or ())

    ips = sorted(pod["status"]["podIP"] for pod in kubectl.json("get pods")["items"])
    eventually(lambda: addresses() == ips)
    endpoints = json.loads(kubectl.run("get endpoints web -o json").out)  # It warns that these are old.
    assert sorted(one["ip"] for one in endpoints["subsets"][0]["addresses"]) == ips
    kubectl.ok("set image deploy/web main=broken:2")
    kubectl.ok("scale deploy/web --replicas=0")
    eventually(lambda: addresses() == [])


def test_evictions_are_bounded_by_a_disruption_budget(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web", replicas=2))
    kubectl.ok("create poddisruptionbudget web --selector=app=web --max-unavailable=0")
    kubectl.ok(STATUS)
    eventually(lambda: kubectl.value("get pdb web", ".status.currentHealthy") == "2")
    (shown,) = kubectl.rows("get pdb web")
    assert shown["ALLOWED DISRUPTIONS"] == "0"
    assert kubectl.value("get pdb web", ".status.expectedPods") == "2"
    kubectl.ok("patch pdb web --type=merge", "-p", '{"spec":{"maxUnavailable":1}}')
    eventually(lambda: kubectl.value("get pdb web", ".status.disruptionsAllowed") == "1")


def test_a_job_runs_to_its_end(kubectl: Kubectl) -> None:
    kubectl.ok("create job sum --image=done:1")
    kubectl.ok("wait --for=condition=Complete job/sum --timeout=30s")
    assert kubectl.value("get job sum", ".status.succeeded") == "1"
    (shown,) = kubectl.rows("get job sum")
    assert (shown["STATUS"], shown["COMPLETIONS"]) == ("Complete", "1/1")


def test_a_job_that_fails_too_often_has_failed(kubectl: Kubectl) -> None:
    spec = {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [
        {"name": "main", "image": "fails:1"}]}}}  # fmt: skip
    kubectl.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": spec})
    kubectl.ok("wait --for=condition=Failed job/sum --timeout=30s")
    assert kubectl.value("get job sum", ".status.conditions[?(@.type=='Failed')].reason") == (
        "BackoffLimitExceeded"
    )


def test_how_far_a_workload_has_come_is_an_object(kubectl: Kubectl) -> None:
    made = deployment("web", replicas=2, image="broken:1")
    kubectl.create(made, service("web"))

    def progress() -> dict[str, object]:
        found = kubectl.json("get workloadprogresses")["items"]
        (current,) = [one["status"].get("current") or {} for one in found if "status" in one] or [{}]
        reasons = [one["reason"] for one in current.get("pendingReasons") or ()]
        return {**{name: current.get(name, 0) for name in ("bound", "ready", "serving")}, "why": reasons}

    eventually(lambda: progress() == {"bound": 2, "ready": 0, "serving": 0, "why": ["probe"]}, seconds=20)
    kubectl.ok("set image deploy/web main=nginx:2")
    eventually(lambda: progress() == {"bound": 2, "ready": 2, "serving": 2, "why": []}, seconds=20)
    kubectl.ok("wait --for=condition=Ready workloadprogress/deployment-web --timeout=20s")
    (shown,) = kubectl.rows("get wp")
    assert (shown["NAME"], shown["DESIRED"], shown["SERVING"]) == ("deployment-web", "2", "2")


@pytest.mark.full
def test_an_autoscaler_keeps_its_target_within_bounds_and_says_what_it_lacks(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web", replicas=1))
    kubectl.ok("autoscale deploy/web --min=2 --max=4 --cpu-percent=50")
    eventually(lambda: kubectl.value("get deploy web", ".spec.replicas") == "2", seconds=30)
    kubectl.ok(STATUS)
    reason = ".status.conditions[?(@.type=='ScalingActive')].reason"
    eventually(lambda: kubectl.value("get hpa web", reason) == "FailedGetResourceMetric", seconds=30)
