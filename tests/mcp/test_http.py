"""`fathom mcp` over HTTP: each caller has their own rights, and pages of other sites have none."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.api.harness import ADMIN, JANE
from tests.cli.asking import PODS, pod
from tests.mcp.sessions import OWN, PAUSE, Obj, Place, client_of, data_of, refusal_of, told
from tests.security.people import grant

from fathom.api.auth.certificates import ensure_pki
from fathom.mcp.guard import BODY_BYTES_MAX
from fathom.seams.outside import SystemClock

pytestmark = pytest.mark.live

Sent = tuple[int, dict[str, str], Obj]
INITIALIZE: Obj = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "probe", "version": "1.0"},
    },
}
LIST: Obj = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


def test_each_caller_has_their_own_rights_and_none_of_the_servers(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        assert (await place.api.post(PODS, pod("large", "2"))).status == 201
        async with place.over_http("--allow-proposals") as url:
            async with client_of(url, ADMIN) as client:
                answer = await client.call_tool("why", {"object": "pod/large"})
                assert data_of(answer)[0].startswith("pod default/large is not scheduled")
            async with client_of(url, JANE, mode="auto") as client:
                refused = refusal_of(await client.call_tool("why", {"object": "pod/large"}))
                assert 'User "jane" cannot ' in refused
                listed = data_of(await client.call_tool("runbooks", {}))
                assert listed[-1].startswith("runbooks of the cluster are not listed: ")
                refused = refusal_of(await client.call_tool("propose_override", PAUSE))
                assert 'User "jane" cannot create resource "scheduleroverrides"' in refused
                await grant(place.api, "jane", "admin", "default")
                assert (await client.call_tool("propose_override", PAUSE)).is_error is False
            stored = (await place.api.get(f"{OWN}/scheduleroverrides/pause")).obj
            assert (stored["status"]["author"], stored["spec"]["requestedThrough"]) == (
                "jane",
                "assistant probe 1.0 via fathom mcp",
            )

    told(story, tmp_path)


def test_strangers_are_refused_and_a_session_belongs_to_the_token_that_began_it(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        async with place.over_http() as url:
            port = urlsplit(url).port
            token = {"authorization": f"Bearer {ADMIN}"}
            refused = [
                (421, {"host": "evil.example"}),
                (421, {"host": f"127.0.0.1.evil.example:{port}"}),
                (403, {"origin": "https://evil.example"}),
                (403, {"origin": "null"}),
                (403, {"sec-fetch-site": "cross-site"}),
                (401, {"authorization": ""}),
                (401, {"authorization": "Bearer nobody"}),
                (401, {"authorization": "Basic YWRtaW46YWRtaW4="}),
                (413, {"content-length": str(BODY_BYTES_MAX + 1)}),
            ]
            for code, headers in refused:
                answer = await sent(url, INITIALIZE, {**token, **headers})
                assert (answer[0], headers) == (code, headers)
                assert "error" in answer[2]
            assert (await sent(url, INITIALIZE, token, method="GET"))[0] == 405
            assert (await sent(url, INITIALIZE, token, method="OPTIONS"))[0] == 405
            assert (await sent(f"{url}x", INITIALIZE, token))[0] == 404
            long = await sent(url, INITIALIZE, token, body=b" " * (BODY_BYTES_MAX + 1), chunked=True)
            assert long[0] == 413
            own = {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}
            code, headers, _ = await sent(url, INITIALIZE, {**token, **own})
            assert (code, headers["cache-control"], headers["x-content-type-options"]) == (
                200,
                "no-store",
                "nosniff",
            )
            assert [name for name in headers if name.startswith("access-control-")] == []
            await _session_of_one_token(url)

    told(story, tmp_path)


@pytest.mark.full
def test_with_tls_it_answers_to_the_names_of_its_certificate(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path / "tls", ("ask.example",), clock=SystemClock())
    files = ("--tls-cert", str(pki.server_file), "--tls-key", str(pki.server_file))
    tls = ssl.create_default_context(cafile=str(pki.ca_file))

    async def story(place: Place) -> None:
        async with place.over_http(*files) as url:
            assert url.startswith("https://127.0.0.1:")
            token = {"authorization": f"Bearer {ADMIN}"}
            for name in ("127.0.0.1", "ask.example"):
                named = {**token, "host": f"{name}:{urlsplit(url).port}"}
                assert (await sent(url, INITIALIZE, named, tls=tls))[0] == 200
            other = {**token, "host": f"other.example:{urlsplit(url).port}"}
            assert (await sent(url, INITIALIZE, other, tls=tls))[0] == 421

    told(story, tmp_path)


async def _session_of_one_token(url: str) -> None:
    """It cannot be used with another, and it ends."""
    admin, jane = ({"authorization": f"Bearer {token}"} for token in (ADMIN, JANE))
    begun = (await sent(url, INITIALIZE, admin))[1]["mcp-session-id"]
    session = {"mcp-session-id": begun, "mcp-protocol-version": "2025-06-18"}
    noted = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await sent(url, noted, {**admin, **session}))[0] == 202
    code, _, answer = await sent(url, LIST, {**admin, **session})
    assert (code, answer["result"]["tools"][0]["name"]) == (200, "why")
    assert (await sent(url, LIST, {**jane, **session}))[0] == 404
    assert (await sent(url, LIST, session))[0] == 401
    assert (await sent(url, LIST, {**jane, **session}, method="DELETE"))[0] == 404
    assert (await sent(url, LIST, {**admin, **session}, method="DELETE"))[0] == 200
    assert (await sent(url, LIST, {**admin, **session}))[0] == 404


async def sent(
    url: str,
    message: Obj,
    headers: dict[str, str],
    *,
    method: str = "POST",
    body: bytes = b"",
    chunked: bool = False,
    tls: ssl.SSLContext | None = None,
) -> Sent:
    """Exactly these headers: HTTP libraries for people set Host and Content-Length themselves."""

    def ask() -> Sent:
        address = urlsplit(url).netloc
        plain = http.client.HTTPConnection(address, timeout=30)
        connection = plain if tls is None else http.client.HTTPSConnection(address, timeout=30, context=tls)
        content = body or json.dumps(message).encode()
        length = {"transfer-encoding": "chunked"} if chunked else {"content-length": str(len(content))}
        try:
            connection.putrequest(method, urlsplit(url).path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"host": urlsplit(url).netloc, **JSON, **length, **headers}.items():
                connection.putheader(name, value)
            connection.endheaders()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # Answered before it was read.
                connection.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content) if chunked else content)
            answer = connection.getresponse()
            text = answer.read() if answer.status != 200 or method != "GET" else b""
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, _decoded(text)
        finally:
            connection.close()

    return await asyncio.to_thread(ask)


def _decoded(text: bytes) -> Obj:
    try:
        decoded = json.loads(text)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
