"""`fathom top` in a terminal, beside a cluster: what is stuck appears, is opened, mended, and goes."""

from __future__ import annotations

from tests.cli.screens import Screen, ScreenTerminal
from tests.cli.terminals import FATHOM, Terminal
from tests.cluster.living import Cluster

from fathom.model.objects import Obj

COLUMNS, ROWS = 110, 50
REQUESTS = "/spec/template/spec/containers/0/resources/requests/cpu"
JSON_PATCH = "application/json-patch+json"


def deployment(cpu: str) -> Obj:
    container = {"name": "c", "image": "sleeper:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


def test_a_stuck_deployment_is_shown_opened_and_gone_when_it_is_mended(
    cluster: Cluster, namespace: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    env = {"KUBECONFIG": str(cluster.data / "kubeconfig")}
    words = [*FATHOM, "top", "-n", namespace]
    with Terminal(words, columns=COLUMNS, rows=ROWS, env=env) as terminal:
        screen = ScreenTerminal(terminal, Screen(rows=ROWS, columns=COLUMNS))
        screen.wait_for("nothing is stuck")
        screen.wait_for("breakers closed: controllers, scheduler")
        cluster.ask("POST", path, deployment("64"))
        why = "is not ready with 0 of 2 replicas ready: 2 pods are not ready: capacity"
        screen.wait_for(f"Deployment {namespace}/web {why}")
        terminal.type("\r")
        screen.wait_for("scheduled ░░░░░░░░░░░░░░░░░░░░░░░░ 0/2")
        assert screen.screen.lines()[0].startswith(f"fathom top  deployment {namespace}/web ")
        screen.wait_for("1 (current) 0/2")
        patch = [{"op": "replace", "path": REQUESTS, "value": "10m"}]
        cluster.ask("PATCH", f"{path}/web", patch, JSON_PATCH)
        screen.wait_for(f"WHY Deployment {namespace}/web has all 2 replicas ready")
        screen.wait_for("generation 2 (new) generation 1 (before)")
        screen.wait_for("serving ████████████████████████ 2/2")
        screen.wait_for("2 (current) 2/2")
        terminal.type("\x1b")
        screen.wait_for("STUCK 0 nothing is stuck")
        screen.wait_for("deployment/web 2/2 ready 2 serving")
        terminal.type("q")
        code, rest = terminal.finish()
        screen.screen.feed(rest)
        assert (code, terminal.modes() == terminal.modes_before) == (0, True)
        assert not screen.screen.full_screen
