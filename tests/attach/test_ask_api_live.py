"""A real kubectl asks fathom through a real kube-apiserver, as its administrator and as a user of one
namespace.

    FATHOM_KUBECONFIG=FILE [FATHOM_ASK_ADDRESS=ADDRESS] script/test tests/attach/test_ask_api_live.py

FILE is an administrator's kubeconfig of a Kubernetes with an aggregation layer, which fathom is not attached
to. Its API server connects to ADDRESS: an address of this machine, found by itself where that is left out.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.clients.kubectl import Kubectl

FOREIGN = os.environ.get("FATHOM_KUBECONFIG", "")
pytestmark = [
    pytest.mark.live,
    pytest.mark.kubectl,
    pytest.mark.skipif(
        not FOREIGN, reason="needs a real Kubernetes: FATHOM_KUBECONFIG names its administrator's kubeconfig"
    ),
]
WAIT_S = 90.0
API_SERVICE = "v1alpha1.ask.fathom.dev"
GROUP = "ask.fathom.dev"


def address() -> str:
    """Of this machine, as other machines see it."""
    if given := os.environ.get("FATHOM_ASK_ADDRESS", ""):
        return given
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # Sends nothing: it only chooses a route.
        except OSError:
            pytest.skip("this machine has no address that an API server could connect to")
        return str(probe.getsockname()[0])


def free_port(host: str) -> int:
    with socket.create_server((host, 0)) as listener:
        return int(listener.getsockname()[1])


def until(check: Callable[[], Any], log: Path) -> Any:
    deadline_s = time.monotonic() + WAIT_S
    while not (found := check()):
        assert time.monotonic() < deadline_s, f"it did not come true in time:\n{log.read_text()}"
        time.sleep(0.3)
    return found


def fathom(*words: str) -> list[str]:
    return [sys.executable, "-m", "fathom.cli", *words, "--kubeconfig", str(Path(FOREIGN).absolute())]


@contextmanager
def attached(folder: Path, admin: Kubectl) -> Iterator[Path]:
    """While fathom observes and serves questions; all of it is gone afterwards."""
    host = address()
    words = fathom(
        "attach", "--observe-only", "--yes", "--ask-api", f"{host}:{free_port(host)}", "--port", "0"
    )
    log = folder / "attach.log"
    with log.open("w") as out:
        process = subprocess.Popen([*words, "--data", str(folder / "copy")], stdout=out, stderr=out)
    try:
        until(lambda: is_available(admin), log)
        yield log
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
        assert f"removed apiservice {API_SERVICE}" in log.read_text()
    finally:
        process.kill()
        process.wait()
        done = subprocess.run(fathom("detach", "--yes"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def is_available(admin: Kubectl) -> bool:
    """As the cluster's own server sees it."""
    done = admin.run(f"get apiservice {API_SERVICE} -o json")
    conditions = json.loads(done.out)["status"].get("conditions") if done.code == 0 else None
    return {"type": "Available", "status": "True"}.items() <= next(iter(conditions or ()), {}).items()


def deployment(name: str) -> str:
    labels = {"app": name}
    spec = {
        "containers": [{"name": "c", "image": "example.com/none", "resources": {"requests": {"cpu": "1"}}}]
    }
    return yaml.safe_dump({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })  # fmt: skip


@pytest.fixture
def teams(kubectl: str, tmp_path: Path) -> Iterator[tuple[Kubectl, str, str]]:
    """kubectl of the administrator, and two namespaces with a Deployment each: one has a user, ann."""
    admin = Kubectl(kubectl, Path(FOREIGN).absolute(), tmp_path)
    suffix = secrets.token_hex(3)
    names = f"fathom-mine-{suffix}", f"fathom-theirs-{suffix}"
    try:
        for name in names:
            admin.run(f"create namespace {name}")
            assert admin.within(name).run("create -f -", stdin=deployment("web")).code == 0
        yield admin, *names
    finally:
        for name in names:
            admin.run(f"delete namespace {name} --wait=false")


def test_kubectl_asks_through_a_real_kube_apiserver(teams: tuple[Kubectl, str, str], tmp_path: Path) -> None:
    admin, mine, theirs = teams
    with attached(tmp_path, admin) as log:
        listed = admin.ok(f"api-resources --api-group={GROUP} --no-headers -o name").split()
        assert listed == [
            f"{name}.{GROUP}" for name in ("couplings", "decisions", "explanations", "timelines")
        ]
        explained = f"explain explanations.spec --api-version={GROUP}/v1alpha1"
        until(lambda: "FIELDS" in admin.run(explained).out, log)  # The server reads our OpenAPI at leisure.

        asked = f"get explanations.{GROUP} deployment.web -o json"
        # The observer has seen both.
        until(lambda: all(admin.within(name).run(asked).code == 0 for name in (mine, theirs)), log)
        answer = json.loads(admin.within(theirs).ok("get explanation deployment.web -o json"))
        assert (answer["kind"], answer["apiVersion"]) == ("Explanation", f"{GROUP}/v1alpha1")
        assert f"{theirs}/web" in answer["status"]["summary"]
        assert admin.run("get decisions -A").code == 0
        for kind in ("Explanation", "Timeline", "Coupling"):
            made = admin.within(mine).ok("create -f - -o json", stdin=question(kind))
            assert json.loads(made)["metadata"]["name"] == "deployment.web"

        # ann may get the Deployments of one namespace, and ask everywhere.
        role = "--verb=get --resource=deployments.apps"
        admin.within(mine).ok(f"create role ann {role}")
        admin.within(mine).ok("create rolebinding ann --role=ann --user=ann")
        for name in (mine, theirs):
            admin.within(name).ok("create rolebinding ann-asks --clusterrole=fathom-ask --user=ann")
        answer = json.loads(admin.within(mine).ok("get explanation deployment.web --as=ann -o json"))
        assert f"{mine}/web" in answer["status"]["summary"]
        # kubectl asks whether a kind that cannot be patched is a CRD, which ann may not list.
        made = admin.within(mine).ok(
            "create --validate=false --as=ann -f - -o json", stdin=question("Timeline")
        )
        assert json.loads(made)["kind"] == "Timeline"
        refused = admin.within(theirs).run("get explanation deployment.web --as=ann")
        assert refused.code == 1
        assert 'User "ann" cannot get resource "deployments" in API group "apps"' in refused.err
        assert admin.within(theirs).run("get explanation deployment.web --as=bob").code == 1  # Not even ask.
    assert admin.run(f"get apiservice {API_SERVICE}").code == 1
    left = admin.run("get clusterroles,clusterrolebindings,namespaces -o name")
    assert "fathom-ask" not in left.out


def question(kind: str) -> str:
    subject = {"kind": "Deployment", "name": "web"}
    return yaml.safe_dump({
        "apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": "q"},
        "spec": {"subject": subject},
    })  # fmt: skip
