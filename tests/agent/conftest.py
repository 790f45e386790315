"""A server and an agent for a module's tests of what really runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.agent.living import NODE, AgentProcess, Cluster
from tests.clients.running import Server, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="module")
def agent(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    place = tmp_path_factory.mktemp("agent")
    images = place / "images.toml"
    images.write_text('greeter = ["sh", "-c", "echo hello from $(POD_NAME)"]')
    one = AgentProcess(server, place / "log", "--record", str(place / "tape"), "--images", str(images))
    one.start()
    yield one
    assert one.end() == 0
    # All that it did since it was last started follows from what is on its tape.
    words = [sys.executable, "-m", "fathom.cli", "replay", str(place / "tape" / NODE)]
    replayed = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert replayed.stdout.startswith("reproduced: "), replayed.stdout + replayed.stderr


@pytest.fixture
def cluster(server: Server, agent: AgentProcess) -> Iterator[Cluster]:
    made = Cluster(server, agent)
    yield made
    made.clean()
