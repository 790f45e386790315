"""A node's agent is killed and its pods run on: the node is said to be unreachable, and nobody is evicted."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.living import Cluster, deployment, service, until
from tests.cluster.test_cluster import DEPLOYMENTS, SERVICES, everybody, remove

MORTAL = "mortal"
Obj = dict[str, Any]


class Agent:
    def __init__(self, cluster: Cluster, log: Path) -> None:
        self._words = [sys.executable, "-m", "fathom.cli", "serve", "agent", "--node", MORTAL]
        self._words += ["--up", str(cluster.data)]
        self._log = log

    def start(self) -> None:
        with self._log.open("a") as out:
            self.process = subprocess.Popen(self._words, stdout=out, stderr=out)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)


@pytest.fixture
def agent(cluster: Cluster, tmp_path: Path) -> Iterator[Agent]:
    one = Agent(cluster, tmp_path / "log")
    one.start()
    until(lambda: condition(cluster, "Ready").get("status") == "True", one._log.read_text)
    yield one
    one.process.terminate()
    one.process.wait(20)
    cluster.ask("DELETE", f"/api/v1/nodes/{MORTAL}")


def node(cluster: Cluster) -> Obj:
    found: list[Obj] = cluster.ask("GET", "/api/v1/nodes")["items"]
    return next((one for one in found if one["metadata"]["name"] == MORTAL), {})


def condition(cluster: Cluster, type_: str) -> Obj:
    conditions = node(cluster).get("status", {}).get("conditions", ())
    return next((one for one in conditions if one["type"] == type_), {})


@pytest.mark.full
def test_pods_that_serve_stay_where_they_are_when_their_agent_dies(cluster: Cluster, agent: Agent) -> None:
    wanted = deployment("stays", 2)
    wanted["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": MORTAL}
    cluster.ask("POST", DEPLOYMENTS, wanted)
    cluster.ask("POST", SERVICES, service("stays"))
    cluster.until_ready("stays", 2)
    before = everybody(cluster, "stays", 2)
    agent.kill()
    until(lambda: condition(cluster, "Ready").get("status") == "Unknown", lambda: str(node(cluster)), 120)
    until(
        lambda: condition(cluster, "fathom.dev/Held").get("reason") == "Spared",
        lambda: str(node(cluster)),
        30,
    )
    held = condition(cluster, "fathom.dev/Held")
    assert (held["status"], held["message"]) == ("True", "no pod is evicted: the gateway reaches pods there")
    assert {taint["effect"] for taint in node(cluster)["spec"]["taints"]} == {"NoSchedule"}
    assert everybody(cluster, "stays", 2) == before
    agent.start()
    until(lambda: condition(cluster, "Ready").get("status") == "True", lambda: str(node(cluster)))
    until(lambda: not node(cluster)["spec"].get("taints"), lambda: str(node(cluster)))
    assert everybody(cluster, "stays", 2) == before
    remove(cluster, "stays")
