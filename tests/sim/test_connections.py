"""Nobody connects to a pod of a simulated world: it runs no program. Whoever tries is told so."""

from __future__ import annotations

import json

import pytest
from tests.sim.small import passes, story

from fathom.client.api import Resource
from fathom.model.objects import Key, lookup
from fathom.seams.seam import Ask
from fathom.sim.scenarios.real import run_real_cluster
from fathom.sim.world.world import World

PODS = Resource("", "v1", "pods")
ACTIONS = {"exec": "command=id&stdout=true", "attach": "stdout=true", "portforward": "ports=80"}
UPGRADE = (
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-protocol", "v5.channel.k8s.io, portforward.k8s.io"),
)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_simulated_world_refuses_connections_into_pods_with_a_reason(method: str) -> None:
    async def tale(world: World) -> None:
        run_real_cluster(world, nodes=("node-1",), spare=False)
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await world.apply(PODS, {"metadata": {"name": "p"}, "spec": spec})
        await world.until(lambda: phase_of(world) == "Running", within_s=60, what="the pod runs")
        answers = {}
        for action, query in ACTIONS.items():
            ask = Ask(method, f"/api/v1/namespaces/default/pods/p/{action}?{query}", headers=UPGRADE)
            reply = await world.api._transport.request(ask, timeout_s=10)
            answers[action] = (reply.status, json.loads(reply.body)["message"])
        why = "pod p runs no program to connect to: containers of node node-1 are simulated"
        assert answers == dict.fromkeys(ACTIONS, (400, why))

    passes(story(tale))


def phase_of(world: World) -> str:
    return str(lookup(world.get("pods", Key("default", "p")) or {}, "status", "phase"))
