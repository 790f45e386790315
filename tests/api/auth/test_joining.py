"""A node joins with a token, over TLS: the agent's side and the server's side, in one process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api, serving

from fathom.api.auth.certificates import ensure_pki
from fathom.api.auth.static_tokens import digest
from fathom.api.auth.tls import server_context
from fathom.api.http import Http
from fathom.cli.api_server import ServerConnection
from fathom.cli.cluster import joining
from fathom.cli.cluster.joining import JoinWanted, join
from fathom.cli.problem import Problem
from fathom.model.user import User
from fathom.node_certificates import NodeCertificates
from fathom.seams.log import NoLog
from fathom.seams.outside import SystemClock

JOINER = User("joiner", ("system:bootstrappers", "system:authenticated"))
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@asynccontextmanager
async def listening(data: Path) -> AsyncIterator[tuple[Api, str]]:
    """An API server with TLS, and its URL."""
    async with serving(data) as api:
        tokens = {**api.parts.own_tokens, digest("t"): JOINER}
        api.parts.authenticator.replace_tokens(tokens)
        pki = ensure_pki(data, clock=SystemClock())
        http = Http(api.parts.server, keep_alive_s=5)
        listener = await asyncio.get_running_loop().create_server(
            http.connection, "127.0.0.1", 0, ssl=server_context(pki)
        )
        writer = api.parts.writer("node-certificates")
        signing = asyncio.create_task(
            NodeCertificates(writer, api.core.cache, pki, SystemClock(), log=NoLog()).run()
        )
        try:
            yield api, f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        finally:
            signing.cancel()
            listener.close()
            await http.stop(patience_s=1)


def wanted(tmp_path: Path, url: str, token: str, where: str = "one") -> JoinWanted:
    return JoinWanted(url, token, tmp_path / "pki" / "ca.crt", tmp_path / where)


def who(kubeconfig: Path) -> tuple[str, list[str]]:
    body: dict[str, Any] = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    _, answer = ServerConnection(kubeconfig).request("POST", WHO, body)
    user = answer["status"]["userInfo"]
    return user["username"], user["groups"]


@pytest.mark.slow
def test_a_node_joins_with_a_token_and_needs_none_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "ASK_AGAIN_S", 0.05)

    async def story() -> None:
        async with listening(tmp_path) as (_, url):
            folder = await asyncio.to_thread(join, wanted(tmp_path, url, "t"), ["n1", "n2"])
            files = sorted(path.name for path in folder.iterdir())
            assert files == ["n1", "n2"]
            assert {(folder / name).stat().st_mode & 0o777 for name in files} == {0o600}
            assert [await asyncio.to_thread(who, folder / name) for name in files] == [
                ("system:node:n1", ["system:nodes", "system:authenticated"]),
                ("system:node:n2", ["system:nodes", "system:authenticated"]),
            ]
            before = (folder / "n1").read_text()
            assert join(wanted(tmp_path, url, ""), ["n1", "n2"]) == folder
            assert (folder / "n1").read_text() == before
            monkeypatch.setattr(joining, "RENEW_DAYS", 1000)  # As if the certificate was about to end.
            await asyncio.to_thread(join, wanted(tmp_path, url, ""), ["n1"])
            assert (folder / "n1").read_text() != before
            assert await asyncio.to_thread(who, folder / "n1") == (
                "system:node:n1",
                ["system:nodes", "system:authenticated"],
            )

    asyncio.run(story())


@pytest.mark.slow
def test_a_node_that_exists_already_waits_for_an_administrator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "ASK_AGAIN_S", 0.05)
    told = threading.Event()
    monkeypatch.setattr(joining, "say", lambda *_, **__: told.set())

    async def story() -> None:
        async with listening(tmp_path) as (api, url):
            await asyncio.to_thread(join, wanted(tmp_path, url, "t"), ["n1"])
            tokens = {**api.parts.own_tokens, digest("t"): JOINER, digest("admin"): _admin()}
            api.parts.authenticator.replace_tokens(tokens)
            node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}
            assert (await api.post("/api/v1/nodes", node, token="admin")).status == 201
            told.clear()  # The first one waited a moment, too.
            thief = asyncio.create_task(asyncio.to_thread(join, wanted(tmp_path, url, "t", "thief"), ["n1"]))
            await asyncio.to_thread(told.wait, 20)
            assert not thief.done()
            listed = (await api.get(joining.PATH, token="admin")).obj["items"]
            (waiting,) = [each for each in listed if not (each.get("status") or {}).get("certificate")]
            waiting["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}
            path = f"{joining.PATH}/{waiting['metadata']['name']}/approval"
            assert (await api.put(path, waiting, token="admin")).status == 200
            await asyncio.wait_for(thief, 20)

    asyncio.run(story())


def _admin() -> User:
    return User("admin", ("system:masters", "system:authenticated"))


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("wrong", "the API server does not accept the token: it may have ended; make a new one"),
        ("", "node n1 has no valid certificate yet: give a token with --token or --token-file"),
    ],
)
def test_who_cannot_join_is_told_why(tmp_path: Path, token: str, message: str) -> None:
    async def story() -> None:
        async with listening(tmp_path) as (_, url):
            with pytest.raises(Problem) as raised:
                await asyncio.to_thread(join, wanted(tmp_path, url, token), ["n1"])
            assert str(raised.value) == message

    asyncio.run(story())


def test_a_server_of_another_ca_gets_no_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with listening(tmp_path) as (_, url):
            (tmp_path / "other").mkdir()
            other = ensure_pki(tmp_path / "other", clock=SystemClock())
            asked = JoinWanted(url, "t", other.ca_file, tmp_path / "one")
            with pytest.raises(Problem, match="certificate"):
                await asyncio.to_thread(join, asked, ["n1"])

    asyncio.run(story())
