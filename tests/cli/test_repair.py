"""`fathom repair` on a real server, and the same decision with kubectl alone."""

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
from tests.clients.running import Server, running, tls_of

from fathom.cli.steer.repair import list_rows, proposal_lines
from fathom.model.times import moment_ns

OWN = "/apis/fathom.dev/v1alpha1/namespaces/default/repairproposals"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/fathom-system/leases"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("repair")) as made:
        lease = {"metadata": {"name": "controllers"}, "spec": {"holderIdentity": "me"}}
        taken = as_repair(made, "POST", LEASES, lease, "")
        fence = f"fathom-system/controllers/{taken['metadata']['annotations']['fathom.dev/epoch']}"
        for name in ("one", "two", "three"):
            as_repair(made, "POST", OWN, proposal(name), fence)
        yield made


def as_repair(server: Server, method: str, path: str, body: Any, fence: str) -> Any:
    """With the controllers' own credentials."""
    tls = tls_of(server.data / "credentials" / "controllers")
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=tls, timeout=20)
    headers = {"content-type": "application/json", **({"fathom-fence": fence} if fence else {})}
    connection.request(method, path, body=json.dumps(body), headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 201, text
    return json.loads(text)


def proposal(name: str) -> dict[str, Any]:
    subject = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": f"web-{name}", "uid": "1"}
    evidence = [{"source": "repair", "message": "node n1 cannot be heard"}]
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "RepairProposal",
        "metadata": {"name": name},
        "spec": {
            "subject": subject,
            "problem": "TerminatingOnSilentNode",
            "action": "Delete",
            "evidence": evidence,
        },
    }


def fathom(server: Server, *words: str, kubeconfig: Path | None = None) -> tuple[int, str]:
    file = kubeconfig or server.kubeconfig
    command = [sys.executable, "-m", "fathom.cli", "repair", *words, "--kubeconfig", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in ran.stderr
    return ran.returncode, ran.stdout or ran.stderr


def test_what_waits_is_listed_approved_and_refused(server: Server) -> None:
    code, text = fathom(server, "list")
    head, *rows = text.splitlines()
    assert (code, head.split()[:2]) == (0, ["NAMESPACE", "NAME"])
    assert {row.split()[1] for row in rows} >= {"one", "two"}
    assert "node n1 cannot be heard" in rows[0]
    assert fathom(server, "approve", "one", "--yes") == (
        0,
        "default/one: Delete pod/web-one is approved by fathom-admin\n",
    )
    assert fathom(server, "refuse", "two", "-n", "default", "--yes")[0] == 0
    _, text = fathom(server, "list", "-o", "json")
    found = {one["metadata"]["name"]: one["status"] for one in json.loads(text)}
    assert (found["one"]["approved"], found["two"]["approved"]) == (True, False)
    assert found["one"]["approver"] == found["two"]["approver"] == "fathom-admin"


def test_what_cannot_be_decided_says_why_in_one_line(server: Server) -> None:
    code, text = fathom(server, "approve", "none", "--yes")
    assert (code, text.count("\n")) == (1, 1)
    assert "there is no RepairProposal default/none; list them with `fathom repair list`" in text
    own = server.data / "credentials" / "controllers"
    code, text = fathom(server, "approve", "one", "--yes", kubeconfig=own)
    assert (code, text.count("\n")) == (1, 1)
    assert "system:fathom:controllers" in text
    code, text = fathom(server, "approve", "three")
    assert (code, text.count("\n")) == (2, 1)
    assert "there is no terminal to ask at" in text


def test_what_is_asked_shows_action_and_evidence() -> None:
    assert proposal_lines({**proposal("one"), "metadata": {"name": "one", "namespace": "default"}}) == [
        "proposal   default/one",
        "problem    TerminatingOnSilentNode",
        "action     Delete pod/web-one",
        "evidence   repair: node n1 cannot be heard",
    ]


def test_a_wide_list_has_the_problem_the_age_and_all_evidence() -> None:
    meta = {"name": "one", "namespace": "default", "creationTimestamp": "2026-11-17T12:00:00Z"}
    found = {**proposal("one"), "metadata": meta}
    found["spec"]["evidence"].append({"source": "agent", "message": "no heartbeat for 90 s"})
    now_ns = moment_ns("2026-11-17T12:05:00Z") or 0
    assert list_rows([found], now_ns=now_ns)[1][-2:] == ("", "node n1 cannot be heard")
    head, row = list_rows([found], now_ns=now_ns, wide=True)
    assert head[-4:] == ("APPROVER", "PROBLEM", "AGE", "EVIDENCE")
    evidence = "repair: node n1 cannot be heard; agent: no heartbeat for 90 s"
    assert row[-3:] == ("TerminatingOnSilentNode", "5m", evidence)


def test_kubectl_alone_can_decide(server: Server, kubectl: str, tmp_path: Path) -> None:
    """Both ways that docs/running-a-cluster.md shows."""

    def run(*words: str) -> str:
        command = [kubectl, "--kubeconfig", str(server.kubeconfig), *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    decision = '{"status":{"approved":true}}'
    run("patch", "repairproposal", "three", "--subresource=approval", "--type=merge", "-p", decision)
    status = server.request("GET", f"{OWN}/three")["status"]
    assert (status["approved"], status["approver"]) == (True, "fathom-admin")
    decided = json.loads(run("get", "repairproposal", "three", "-o", "json"))
    decided["status"]["approved"] = False
    file = tmp_path / "decided.json"
    file.write_text(json.dumps(decided))
    run("replace", "--raw", f"{OWN}/three/approval", "-f", str(file))
    assert server.request("GET", f"{OWN}/three")["status"]["approved"] is False
