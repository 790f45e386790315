"""Every command that shows a cluster, on one in which everything that is free text is hostile."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.cli.terminals import Terminal
from tests.clients.running import Server, running
from tests.cluster.living import until
from tests.security.test_terminal import EVIL, OBEYED

from fathom.cli.main import run

Obj = dict[str, Any]
TEXT = EVIL.removesuffix("\ud800")  # No request can carry half of a surrogate pair.
WRITER = "bot\x9b31mowned"  # What a header can carry: the control characters of Latin 1.
PODS = "/api/v1/namespaces/default/pods"
APPS = "/apis/apps/v1/namespaces/default"
OWN = "/apis/fathom.dev/v1alpha1"
RUNBOOK = {
    "apiVersion": "fathom.dev/v1alpha1",
    "kind": "Runbook",
    "metadata": {"name": "hostile"},
    "spec": {
        "title": TEXT,
        "version": 1,
        "parameters": [{"name": "note", "description": TEXT}],
        "steps": [{"id": "ask", "title": TEXT, "action": {"prompt": {"question": TEXT}}}],
    },
}
OVERRIDE = {
    "apiVersion": "fathom.dev/v1alpha1",
    "kind": "SchedulerOverride",
    "metadata": {"name": "hostile"},
    "spec": {
        "target": "deployment/web",
        "scope": "cluster",
        "reason": TEXT,
        "expiresAfter": "10m",
        "changes": {"pauseRollout": True},
    },
}
COMMANDS = [
    "why pod/web",
    "why -o yaml",
    "timeline pod/web",
    "timeline pod/web -o yaml",
    "timeline pod/web -o json",
    "status deployment/web",
    "coupling pod/web",
    "coupling pod/web -o dot",
    "top",
    "top pod/web",
    "top deployment/web",
    "get events",
    "get deployments -o wide",
    "get pod/web -o yaml",
    "get pod/web -o json",
    "get pod/web -o jsonpath={.status.message}",
    "get pod/web -o custom-columns=WHY:.status.message",
    "describe pod/web",
    "describe deployment/web",
    "override list -o wide",
    "override show hostile",
    "override show hostile -o yaml",
    "runbook list",
    "runbook show hostile",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("hostile")) as started:
        fill(started)
        yield started


def fill(server: Server) -> None:
    """A pod and a Deployment of which every text is hostile, and what is said about them."""
    noted = {"name": "web", "annotations": {"note": TEXT}}
    spec = {"nodeName": "n", "containers": [{"name": "main", "image": TEXT}]}
    server.request("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    pod = server.request("POST", PODS, {"metadata": noted, "spec": spec})
    server.patch(f"{PODS}/web/status", {"status": {"phase": "Failed", "reason": "Evicted", "message": TEXT}})
    server.request("POST", "/api/v1/namespaces/default/events", event(pod))
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": spec["containers"]}}
    deployment = {
        "metadata": noted,
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    made = server.request("POST", f"{APPS}/deployments", deployment)
    server.request("POST", f"{APPS}/replicasets", replica_set(made))
    autoscale(server)
    server.request("POST", f"{OWN}/namespaces/default/scheduleroverrides", OVERRIDE)
    server.request("POST", f"{OWN}/namespaces/default/runbooks", RUNBOOK)
    write_as(server, WRITER)


def replica_set(deployment: Obj) -> Obj:
    meta, spec = deployment["metadata"], deployment["spec"]
    notes = {"deployment.kubernetes.io/revision": "1", "kubernetes.io/change-cause": TEXT}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": meta["uid"],
        "controller": True,
    }
    made = {"name": "web-1", "annotations": notes, "ownerReferences": [owner], "labels": {"app": "web"}}
    return {"metadata": made, "spec": {"selector": spec["selector"], "template": spec["template"]}}


def autoscale(server: Server) -> None:
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    made = {"metadata": {"name": "web"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
    server.request("POST", path, made)
    condition = {"type": "ScalingActive", "status": "False", "reason": TEXT, "message": TEXT}
    server.patch(f"{path}/web/status", {"status": {"conditions": [condition]}})


def event(pod: Obj) -> Obj:
    about = {"kind": "Pod", "namespace": "default", "name": "web", "uid": pod["metadata"]["uid"]}
    return {
        "metadata": {"name": "hostile"},
        "involvedObject": about,
        "reason": "Hostile",
        "message": TEXT,
        "type": "Warning",
        "source": {"component": TEXT},
        "lastTimestamp": pod["metadata"]["creationTimestamp"],
    }


def write_as(server: Server, program: str) -> None:
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=server.tls, timeout=20)
    headers = {"content-type": "application/merge-patch+json", "user-agent": f"{program}/1"}
    body = json.dumps({"metadata": {"annotations": {"by": "a program"}}})
    connection.request("PATCH", f"{PODS}/web", body=body, headers=headers)
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_shows_hostile_text_as_text(
    server: Server, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    words = [*command.split(" "), "--kubeconfig", str(server.kubeconfig)]
    shown: list[str] = []

    def is_told() -> bool:
        """The audit log is written a moment after the answer."""
        run(words)
        out, err = capsys.readouterr()
        shown[:] = [out, err]
        return "owned" in out

    until(is_told, lambda: "".join(shown))
    assert OBEYED.findall("".join(shown)) == []
    posing = [line for line in "".join(shown).splitlines() if line.startswith("fathom: error")]
    assert posing == [] or "jsonpath" in command  # Which gives a field as it is, with its line ends.


def test_a_line_of_a_log_is_text_on_a_terminal_and_itself_in_a_pipe(tmp_path: Path) -> None:
    line, file = TEXT.partition("\n")[0].encode() + b"\n", tmp_path / "line"
    file.write_bytes(line)
    code = f"from fathom.cli.objects.logs import _print; _print(open({str(file)!r}, 'rb').read(), '[web] ')"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"[web] " + line
    with Terminal(command, columns=200, env={}) as terminal:
        exit_code, shown = terminal.finish()
    assert (exit_code, OBEYED.findall(shown)) == (0, [])
    assert shown.startswith(r"[web] \x1b]0;owned\x07\x1b[2J\r")
