"""Serves over HTTP, for assistants of several people: each request carries the token of its caller."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path

import anyio.to_thread
import msgspec
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route

from fathom.cli.api_server import NoAnswerNow, ServerConnection
from fathom.cli.places import found_kubeconfig
from fathom.cli.problem import Problem
from fathom.mcp.caller import Callers, server_for
from fathom.mcp.guard import BODY_BYTES_MAX, PATH, Guard, KnownToken, Names, Refusal
from fathom.mcp.request_heads import TimedHeads
from fathom.mcp.server import make_server
from fathom.mcp.token_sessions import IDLE_S
from fathom.terminal import say

SESSIONS_MAX = 128
CONNECTIONS_MAX = 64  # At once; others get 503.
HEADER_BYTES_MAX = 32 << 10  # A token is the longest of them.
STOPS_S = 5
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Listening(msgspec.Struct, frozen=True):
    host: str
    port: int  # 0: any that is free.
    certificate: Path | None = None
    key: Path | None = None

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"


def listening_at(text: str, certificate: Path | None, key: Path | None) -> Listening:
    """'8811', 'HOST:8811' or '[::1]:8811'. Raises Problem."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise Problem(f"--http reads PORT or HOST:PORT, such as 8811 or 127.0.0.1:8811, not {text!r}")
    if (certificate is None) is not (key is None):
        raise Problem("--tls-cert and --tls-key belong together")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not is_loopback(host) and certificate is None:
        raise Problem(
            f"{host} can be reached by other machines, and tokens would cross the network unencrypted: add"
            " --tls-cert and --tls-key, or listen at 127.0.0.1"
        )
    return Listening(host, int(port), certificate, key)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve_http(callers: Callers, at: Listening, kubeconfig: Path | None, *, allow_proposals: bool) -> None:
    """Until it is interrupted. Raises Problem."""
    certified = certified_names(at.certificate) if at.certificate else ()
    opened = _opened(at)
    with opened:
        port = opened.getsockname()[1]
        names = own_names(at, port, certified)
        manager = StreamableHTTPSessionManager(
            make_server(callers, allow_proposals=allow_proposals),
            json_response=True,
            session_idle_timeout=IDLE_S,
            max_request_body_size=BODY_BYTES_MAX,
            max_sessions=SESSIONS_MAX,
        )
        route = Route(PATH, endpoint=StreamableHTTPASGIApp(manager), methods=None)
        app = Starlette(routes=[route], lifespan=lambda _: manager.run())
        guarded = Guard(app, names, known_token(kubeconfig))
        config = _config(guarded, at)
        shown = f"[{at.host}]" if ":" in at.host else at.host
        say(f"fathom mcp answers at {at.scheme}://{shown}:{port}{PATH}; Ctrl-C ends it", err=True)
        asyncio.run(uvicorn.Server(config).serve(sockets=[opened]))


def _config(app: Guard, at: Listening) -> uvicorn.Config:
    """Raises Problem."""
    config = uvicorn.Config(
        app,
        ssl_certfile=str(at.certificate) if at.certificate else None,
        ssl_keyfile=str(at.key) if at.key else None,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=TimedHeads,  # By h11: it limits the size of headers, which httptools does not.
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=STOPS_S,
    )
    try:
        config.load()
    except OSError as error:  # Of OpenSSL too.
        files = f"the certificate {at.certificate} with the key {at.key}"
        raise Problem(f"{files} cannot be used: {error.strerror or error}") from error
    return config


def _opened(at: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((at.host, at.port))
        opened.listen(CONNECTIONS_MAX)  # From now on: the address is told next.
    except OSError as error:
        opened.close()
        raise Problem(f"cannot listen at {at.host}:{at.port}: {error.strerror or error}") from error
    return opened


def own_names(at: Listening, port: int, certified: Iterable[str]) -> Names:
    """The names of the certificate, and on this machine alone those of the machine itself."""
    own = {*certified, *(LOOPBACK if is_loopback(at.host) else ())}
    if at.host not in {"0.0.0.0", "::", "localhost"}:
        own.add(f"[{at.host}]" if ":" in at.host else at.host)
    hosts = {f"{name.lower()}:{port}" for name in own}
    if port == (443 if at.certificate else 80):
        hosts |= {name.lower() for name in own}
    return Names(frozenset(hosts), frozenset(f"{at.scheme}://{host}" for host in hosts))


def certified_names(certificate: Path) -> tuple[str, ...]:
    """The names that a certificate is for. Raises Problem."""
    from cryptography import x509  # noqa: PLC0415  # Only with TLS.

    try:
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
        extension = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except OSError as error:
        raise Problem(f"cannot read {certificate}: {error.strerror}") from error
    except (ValueError, x509.ExtensionNotFound) as error:
        raise Problem(f"{certificate} is not a certificate with names (subjectAltName)") from error
    addresses = extension.get_values_for_type(x509.IPAddress)
    shown = tuple(f"[{each}]" if each.version == 6 else str(each) for each in addresses)
    return (*extension.get_values_for_type(x509.DNSName), *shown)


def known_token(kubeconfig: Path | None) -> KnownToken:
    """Asks the API server whose token it is: 401 if nobody's."""

    def is_known(token: str) -> bool:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        server = ServerConnection(server_for(token, found_kubeconfig(kubeconfig)), answer_s=10.0)
        return server.request("POST", REVIEW, body)[0] != 401

    async def checked(token: str) -> bool:
        try:
            return await anyio.to_thread.run_sync(is_known, token)
        except NoAnswerNow as error:
            raise Refusal(503, f"the API server does not answer: {error}") from error
        except Problem as error:
            raise Refusal(500, str(error)) from error

    return checked
