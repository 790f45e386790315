"""`fathom attach` as users run it: real processes beside an API server that knows nothing of fathom."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.attach.real import FOREIGN, add_node, real_cluster
from tests.attach.scheduled import accepted
from tests.cli.asking import node, pod
from tests.clients.running import Kubernetes, Server, _until_ready, server_of

from fathom.attach.installed import objects_to_install
from fathom.kinds.override_policy import SETTLES_S
from fathom.model.tenancy import ACCOUNT

pytestmark = pytest.mark.live

PLAIN = (
    "import sys; from pathlib import Path; from fathom.serve import run_api;"
    "run_api(data=Path(sys.argv[1]), host='127.0.0.1', port=0, store=None, own_kinds=False)"
)
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PODS, WAIT_S = "/api/v1/namespaces/default/pods", 60.0


@contextmanager
def started(command: list[str], log: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A process that has said `ready`, and what it said until then."""
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        said = _until_ready(process)
        assert said, f"it did not get ready:\n{log.read_text()}"
        yield process, said
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        process.kill()
        process.communicate()


@contextmanager
def plain_server(folder: Path) -> Iterator[Kubernetes]:
    """It stands for a Kubernetes: an API server without fathom's kinds. $FATHOM_KUBECONFIG: that cluster."""
    if FOREIGN:
        with real_cluster() as cluster:
            yield cluster
        return
    data, log = folder / "foreign", folder / "foreign.log"
    with started([sys.executable, "-c", PLAIN, str(data)], log) as (process, said):
        url = next(line for line in said if " on https" in line).split(" on ")[1].split(",")[0]
        yield server_of(process, url, data, log)


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Kubernetes]:
    with plain_server(tmp_path) as server:
        yield server


def fathom(*words: str, code: int = 0, cwd: Path | None = None) -> str:
    command = [sys.executable, "-m", "fathom.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def attached(foreign: Kubernetes, data: Path, *words: str) -> list[str]:
    command = [sys.executable, "-m", "fathom.cli", "attach", "--kubeconfig", str(foreign.kubeconfig)]
    return [*command, "--data", str(data), "--port", "0", *words]


def install_policy(foreign: Kubernetes) -> None:
    """By hand, before `attach` does it: a server of ours asks for an annotation."""
    for obj in [] if FOREIGN else accepted(objects_to_install(observe_only=False)):
        if obj["kind"].startswith("ValidatingAdmissionPolicy"):
            plural = "policies" if obj["kind"].endswith("Policy") else "policybindings"
            foreign.request("POST", f"{ADMISSION}/validatingadmission{plural}", obj)


def until(check: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + WAIT_S
    while not (found := check()):
        assert time.monotonic() < deadline_s, "it did not come true in time"
        time.sleep(0.1)
    return found


def placed_by_kube_scheduler(foreign: Kubernetes, name: str, on: str) -> None:
    foreign.request("POST", PODS, pod(name, "1"))
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": on}}
    foreign.request("POST", f"{PODS}/{name}/binding", binding)
    uid = foreign.request("GET", f"{PODS}/{name}")["metadata"]["uid"]
    event = {
        "metadata": {"name": f"{name}.scheduled"}, "reason": "Scheduled", "message": "assigned",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": name, "uid": uid},
        "reportingComponent": "default-scheduler", "reportingInstance": "a", "type": "Normal",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    foreign.request("POST", "/api/v1/namespaces/default/events", event)
    ready = [{"type": type_, "status": "True"} for type_ in ("Ready", "ContainersReady", "PodScheduled")]
    status = {
        "phase": "Running",
        "conditions": ready,
        "podIP": "10.0.0.1",
        "startTime": "2026-01-01T00:00:00Z",
    }
    running = {"name": "web", "ready": True, "started": True, "restartCount": 0, "image": "i", "imageID": "i"}
    running["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    foreign.patch(f"{PODS}/{name}/status", {"status": {**status, "containerStatuses": [running]}})


def versions(server: Kubernetes) -> dict[str, str]:
    """Of nodes, pods and namespaces: whoever writes an object changes its version."""
    paths = ("/api/v1/nodes", PODS, "/api/v1/namespaces")
    return {
        f"{path}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for path in paths
        for item in server.request("GET", path)["items"]
    }


def writers(server: Kubernetes) -> set[str]:
    """The user agents of all writes in its audit log, but those of its own housekeeping and of the test. Of
    a server that is not ours, the log is not known."""
    if not isinstance(server, Server):
        return set()
    lines = [
        line
        for file in (server.data / "audit").glob("audit.jsonl*")
        for line in file.read_text().splitlines()
    ]
    agents = {str(json.loads(line).get("user_agent") or "") for line in lines}
    return {agent for agent in agents if agent and "housekeeping" not in agent}


def test_an_observer_answers_and_writes_nothing(foreign: Kubernetes, tmp_path: Path) -> None:
    for name, cpu in (("node-1", "4"), ("node-2", "2")):
        add_node(foreign, node(name, cpu))
    placed_by_kube_scheduler(foreign, "web", "node-1")
    foreign.request("POST", PODS, pod("big", "9"))
    rows = {row["check"]: row for row in json.loads(fathom(*attached(foreign, tmp_path, "-o", "json")[3:]))}
    assert rows["WatchList"]["state"] == "yes"
    assert rows["kinds to read"]["found"].startswith("19 of 20")
    data, before = tmp_path / "copy", versions(foreign)
    command = attached(foreign, data, "--observe-only")
    with started(command, tmp_path / "attach.log"):
        ask = ("--kubeconfig", str(data / "kubeconfig"))
        answer = fathom("why", "pod/web", *ask)
        assert "it runs on node-1; kube-scheduler decided; the same rules give node-1 now" in answer
        assert "not known" in answer
        # Also with the cluster's own kubeconfig, where the observer's directory is the default one.
        (tmp_path / ".fathom").symlink_to(data)
        told = fathom("why", "pod/web", "--kubeconfig", str(foreign.kubeconfig), cwd=tmp_path)
        assert "kube-scheduler decided" in told
        assert "too little free cpu" in fathom("why", "pod/big", *ask, code=1)
        assert versions(foreign) == before
        foreign.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": True}})
        until(lambda: "unschedulable" in fathom("timeline", "node/node-1", *ask))
        assert "another node now" in fathom("why", "pod/web", *ask)
        refused = fathom("label", "pod/web", "a=b", *ask, code=1)
        assert "is a copy of" in refused
        assert fathom("get", "pods", "-o", "name", *ask).split() == ["pod/big", "pod/web"]
    assert writers(foreign) == set()
    again = fathom("serve", "api", "--data", str(data), code=2)
    assert "is a copy of" in again


@pytest.mark.full
def test_a_scheduler_beside_it_takes_the_pods_that_name_it_and_detach_removes_it(
    foreign: Kubernetes, tmp_path: Path
) -> None:
    add_node(foreign, node("node-1", "4"))
    config = ("--kubeconfig", str(foreign.kubeconfig))
    assert "has no namespace fathom-system" in fathom(
        "serve", "scheduler", *config, "--data", str(tmp_path), code=2
    )
    assert "there is no terminal to ask at" in fathom(*attached(foreign, tmp_path / "copy")[3:], code=2)
    data = tmp_path / "copy"
    with started(attached(foreign, data, "--yes"), tmp_path / "attach.log"):
        for name, scheduler in (("mine", "fathom"), ("theirs", "default-scheduler")):
            made = pod(name, "1")
            foreign.request("POST", PODS, {**made, "spec": {**made["spec"], "schedulerName": scheduler}})
        until(lambda: foreign.request("GET", f"{PODS}/mine")["spec"].get("nodeName"))
        bound = foreign.request("GET", f"{PODS}/mine")
        ask = ("--kubeconfig", str(data / "kubeconfig"))
        until(lambda: "bind node-1" in fathom("decisions", "pod/mine", *ask))
        id_ = bound["metadata"]["annotations"]["fathom.dev/decision"]
        assert id_ in fathom("decisions", "pod/mine", *ask, "-o", "name")
        assert "no scheduler named" in fathom("why", "pod/theirs", *ask, code=1)
        assert not foreign.request("GET", f"{PODS}/theirs")["spec"].get("nodeName")
        assert "a scheduler still runs" in fathom("detach", *config, "--yes", code=2)
    removed = fathom("detach", *config, "--yes")
    assert "removed namespace fathom-system" in removed
    assert "removed customresourcedefinition scheduleroverrides.fathom.dev" in removed
    left = foreign.request("GET", f"{PODS}/mine")["metadata"]
    (left.get("annotations") or {}).pop(ACCOUNT, "")  # By the binding of a server that stands in.
    left.pop("managedFields", None)  # Who wrote what is there: a record, as Events are.
    assert "fathom" not in json.dumps(left)
    for path in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"):
        listed = foreign.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{path}")["items"]
        assert not [item for item in listed if "fathom" in item["metadata"]["name"]]


@pytest.mark.full
def test_an_attached_scheduler_is_steered_and_says_by_whom_nothing_is_enforced(
    foreign: Kubernetes, tmp_path: Path
) -> None:
    for name, zone in (("node-1", "a"), ("node-2", "b")):
        made = node(name, "4")
        made["metadata"]["labels"] = {"topology.kubernetes.io/zone": zone}
        add_node(foreign, made)
    install_policy(foreign)
    data, config = tmp_path / "copy", ("--kubeconfig", str(foreign.kubeconfig))
    began_s = time.monotonic()
    with started(attached(foreign, data, "--yes"), tmp_path / "attach.log"):
        since_s = time.monotonic() if FOREIGN else began_s  # When the policy was installed.
        time.sleep(max(0.0, SETTLES_S + 2 - (time.monotonic() - since_s)))
        flags = ("--target=workload/web", "--scope=cluster", "--reason=repair", "--for=45m", "--yes")
        said = fathom("override", "create", "avoid-b", *config, *flags, "--avoid-zone=b", "--wait")
        assert "override default/avoid-b: Active, acknowledged by scheduler" in said
        fathom("override", "create", "pause", *config, *flags, "--pause-rollout", "--wait", code=1)
        assert "Declined: NoEnforcer" in fathom("override", "show", "pause", *config)
        made = pod("web", "1")
        foreign.request("POST", PODS, {**made, "spec": {**made["spec"], "schedulerName": "fathom"}})
        until(lambda: foreign.request("GET", f"{PODS}/web")["spec"].get("nodeName"))
        assert foreign.request("GET", f"{PODS}/web")["spec"]["nodeName"] == "node-1"
        # The copy has them too.
        ask = ("--kubeconfig", str(data / "kubeconfig"))
        until(lambda: "Active" in fathom("override", "list", *ask))
    said = fathom("detach", *config, "--yes")
    assert "goes with its kind: scheduleroverride default/avoid-b" in said
    gone = fathom("override", "list", *config, code=1)
    assert "has no SchedulerOverrides" in gone
    assert foreign.request("GET", f"{ADMISSION}/validatingadmissionpolicies")["items"] == []
