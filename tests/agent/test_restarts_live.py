"""Restarts of real programs, by the rules of their containers."""

from __future__ import annotations

import pytest
from tests.agent.living import Cluster, status_of

pytestmark = pytest.mark.live


def test_a_sidecars_end_starts_the_whole_pod_anew(cluster: Cluster) -> None:
    """Once: in its second run the sidecar stays."""
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]

    def one(name: str, script: str, **fields: object) -> dict[str, object]:
        return {"name": name, "image": "x", "command": ["sh", "-c", script], **fields}

    once = "if [ -f again ]; then sleep 300; fi; touch again; sleep 1; exit 88"
    cluster.create(
        "anew",
        [one("main", "sleep 300")],
        initContainers=[
            one("first", "true"),
            one("side", once, restartPolicy="Always", restartPolicyRules=rules),
        ],
        restartPolicy="Never",
    )
    names = ("first", "side", "main")
    pod = cluster.until(
        "anew", lambda pod: all(status_of(pod, name).get("restartCount") == 1 for name in names)
    )
    ready = cluster.until_ready("anew")
    assert ready["status"]["podIP"] == pod["status"]["podIP"]
    assert [status_of(ready, name)["restartCount"] for name in names] == [1, 1, 1]
