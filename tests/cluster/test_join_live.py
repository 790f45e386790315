"""An agent of another machine joins with a token, and later starts without one."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.chaos.victim import Victim, eventually, victim

TOKEN = "join-token-of-the-test"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with victim(tmp_path_factory.mktemp("server")) as running:
        (running.data / "tokens.csv").write_text(f'{TOKEN},joiner,1,"system:bootstrappers"\n')
        (running.data / "tokens.csv").chmod(0o600)
        eventually(lambda: may_join(running), seconds=20)
        yield running


def may_join(server: Victim) -> bool:
    """The server has read the file of tokens."""
    authority = ssl.create_default_context(cafile=server.data / "pki" / "ca.crt")  # No certificate of ours.
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=authority, timeout=20)
    connection.request("GET", f"{REQUESTS}/none", headers={"authorization": f"Bearer {TOKEN}"})
    try:
        return connection.getresponse().status != 401
    finally:
        connection.close()


def command(server: Victim, data: Path, node: str, *more: str) -> list[str]:
    place = ["--server", server.url, "--ca", str(server.data / "pki" / "ca.crt"), "--data", str(data)]
    agent = ["serve", "agent", "--node", node, "--driver", "simulated"]
    return [sys.executable, "-m", "fathom.cli", *agent, *place, *more]


@contextmanager
def agent(server: Victim, data: Path, node: str, *more: str) -> Iterator[Path]:
    """Its output, while it runs."""
    data.mkdir(exist_ok=True)
    log = data / "output"
    with log.open("w") as out:
        process = subprocess.Popen(command(server, data, node, *more), stdout=out, stderr=out)
    try:
        yield log
    finally:
        process.terminate()
        process.wait(20)


def is_ready(server: Victim, node: str) -> bool:
    with server.client() as client:
        answer = client.get(f"/api/v1/nodes/{node}")
    conditions = answer.obj["status"].get("conditions", []) if answer.status == 200 else []
    return ("Ready", "True") in [(each["type"], each["status"]) for each in conditions]


def test_a_node_joins_with_a_token_once_and_starts_without_it_later(server: Victim, tmp_path: Path) -> None:
    with agent(server, tmp_path / "one", "joined", "--token", TOKEN):
        eventually(lambda: is_ready(server, "joined"), seconds=60)
    assert (tmp_path / "one" / "credentials" / "joined").stat().st_mode & 0o777 == 0o600
    assert TOKEN not in (tmp_path / "one" / "credentials" / "joined").read_text()
    with agent(server, tmp_path / "one", "joined") as log:
        eventually(lambda: "ready" in log.read_text().splitlines(), seconds=60)
    # The token is not worth the credentials of a node that exists: an administrator must approve.
    with agent(server, tmp_path / "thief", "joined", "--token", TOKEN) as log:
        eventually(lambda: "kubectl certificate approve node-csr-" in log.read_text(), seconds=60)
        assert not (tmp_path / "thief" / "credentials" / "joined").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--token", "wrong"), "the API server does not accept the token: it may have ended; make a new one"),
        ((), "node other has no valid certificate yet: give a token with --token or --token-file"),
        (("--token-file", "none"), "--token-file none: No such file or directory"),
    ],
)
def test_who_cannot_join_is_told_why(
    server: Victim, tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    answer = subprocess.run(
        command(server, tmp_path, "other", *more), capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stderr) == (2, f"fathom: error: {message}\n")
