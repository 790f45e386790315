"""Whether the API server reaches a node, as it says itself: a real server, a real agent, real signals."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest
from tests.agent.living import NODE, AgentProcess, text
from tests.clients.running import Server

pytestmark = pytest.mark.live

PATH = f"/apis/fathom.dev/v1alpha1/nodeconnections/{NODE}"


@pytest.fixture
def mortal(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    one = AgentProcess(server, tmp_path_factory.mktemp("mortal") / "log")
    one.start()
    yield one
    if one.process is not None and one.process.poll() is None:
        one.end(signal.SIGKILL)


def verdict(server: Server) -> tuple[str, str]:
    answer = json.loads(text(server, PATH))
    if answer["kind"] == "Status":
        return "", answer["message"]  # The node is not registered yet.
    return answer["status"]["verdict"], answer["status"]["message"]


def until(server: Server, wanted: str, *, within_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + within_s
    while (found := verdict(server))[0] != wanted:
        assert time.monotonic() < deadline_s, found
        time.sleep(0.2)


def test_an_agent_that_answers_is_alive_and_one_that_died_leaves_the_machine_in_doubt(
    server: Server, mortal: AgentProcess
) -> None:
    """Who refuses a connection is a machine that runs: pods may run there too."""
    until(server, "alive")
    assert mortal.process is not None
    mortal.process.send_signal(signal.SIGSTOP)
    until(server, "unsure")  # It hangs: the kernel takes the connection, nobody answers.
    mortal.process.send_signal(signal.SIGCONT)
    until(server, "alive")
    mortal.end(signal.SIGKILL)
    until(server, "unsure")


def test_a_node_that_does_not_say_where_its_agent_is_cannot_be_asked(server: Server) -> None:
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}}
    server.request("POST", "/api/v1/nodes", bare)
    try:
        answer = json.loads(text(server, "/apis/fathom.dev/v1alpha1/nodeconnections/bare"))
        assert (answer["kind"], answer["status"]["verdict"]) == ("NodeConnection", "unknown")
        assert json.loads(text(server, "/apis/fathom.dev/v1alpha1/nodeconnections/nobody"))["code"] == 404
    finally:
        server.request("DELETE", "/api/v1/nodes/bare")
