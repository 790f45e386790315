"""`fathom up` that ends, and `fathom down`: who is stopped, who lives on, and who does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.test_up import up

from fathom.agent.host.living_pods import is_run

pytestmark = pytest.mark.live

CONTAINER = ".status.containerStatuses[0]"
FATHOM = [sys.executable, "-m", "fathom.cli"]
CLUSTER = ("up", "--nodes", "1")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: lasting}
spec:
  containers: [{name: main, image: sh, command: [sh, -c, "trap '' TERM; while true; do sleep 1; done"]}]
"""


def fathom(data: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(data / "kubeconfig")}
    return subprocess.run(
        [*FATHOM, *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
        env=environment,
    )


def run_pod(data: Path) -> None:
    done = fathom(data, "apply", "-f", "-", stdin=POD)
    assert (done.returncode, done.stdout) == (0, "pod/lasting created\n"), done.stderr
    until_read(data, ".status.phase", "Running")


def until_read(data: Path, path: str, value: str) -> None:
    deadline_s = time.monotonic() + 60
    while fathom(data, "get", "pod", "lasting", "-o", f"jsonpath={{{path}}}").stdout != value:
        assert time.monotonic() < deadline_s, (path, value)
        time.sleep(0.2)


def test_pods_of_a_fathom_that_is_installed_elsewhere_are_found_and_ended(tmp_path: Path) -> None:
    """After an upgrade into another virtual environment the shims of the old one go on."""
    spec = tmp_path / "agents/node-1/pods/some-uid/runs/main/0/spec.json"
    spec.parent.mkdir(parents=True)
    shim = [sys.executable, "-c", "input()", "/elsewhere/fathom/agent/shim.py", str(spec)]
    with subprocess.Popen(shim, stdin=subprocess.PIPE) as process:
        done = fathom(tmp_path, "down", "--data", str(tmp_path), "--grace", "1s")
        assert process.wait(10) == -signal.SIGKILL
    assert done.stdout.splitlines()[1:] == ["ended 1 pods: some-uid"]


def test_who_is_stopped_and_who_lives_on_is_said_and_down_ends_those_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, command=CLUSTER) as (process, _):
        run_pod(data)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
    assert rest.splitlines()[-3:] == [
        "stopped agents, gateway, deciders, api",
        "1 pods run on: default/lasting",
        f"`fathom up` with the same --data adopts them; `fathom down --data {data}` ends them",
    ]
    done = fathom(data, "down", "--data", str(data), "--grace", "1s")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"no control plane runs in {data}\nended 1 pods: default/lasting\n"
    done = fathom(data, "down", "--data", str(data))
    assert done.stdout == f"no control plane runs in {data}\nno pods ran\n"


def test_down_ends_a_cluster_that_runs_or_its_control_plane_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data, command=CLUSTER) as (process, _):
        run_pod(data)
        done = fathom(data, "down", "--data", str(data), "--keep-pods")
        assert done.stdout == f"stopped the control plane in {data}\n1 pods run on\n"
        assert process.wait(10) == 0
    with up(data, command=CLUSTER) as (process, _):
        done = fathom(data, "down", "--data", str(data), "--grace", "1s")
        assert done.stdout == f"stopped the control plane in {data}\nended 1 pods: default/lasting\n"
        assert process.wait(10) == 0
    with up(data, command=CLUSTER):
        until_read(data, f"{CONTAINER}.lastState.terminated.reason", "ClusterStopped")
        until_read(data, f"{CONTAINER}.ready", "true")
        why = fathom(data, "why", "pod/lasting")  # It did not crash: somebody ended it.
        assert (why.returncode, why.stdout.startswith("pod default/lasting is ready")) == (0, True), why
    assert "ended 1 pods" in fathom(data, "down", "--data", str(data), "--grace", "1s").stdout


def test_where_no_cluster_ever_was_it_is_said(tmp_path: Path) -> None:
    done = fathom(tmp_path, "down", "--data", str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stderr == (
        f"fathom: error: {tmp_path}/none does not exist: name the data directory of a cluster with --data, or"
        " start one with `fathom up`\n"
    )


def test_only_a_run_where_agents_put_them_is_believed(tmp_path: Path) -> None:
    """A program chooses its command line: one that names a directory of its own is no run."""
    pod = tmp_path / "agents" / "node-1" / "pods" / "uid"
    assert is_run(pod / "runs" / "main" / "1", tmp_path)
    for forged in (
        pod / "home" / "main" / "1",
        pod / "volumes" / "v" / "runs" / "main" / "1",
        pod / "runs" / "main" / "..",
        pod / "runs" / ".." / "1",
        tmp_path / "1",
    ):
        assert not is_run(forged, tmp_path), forged
