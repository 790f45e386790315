"""A connection to an API server, without an event loop: for commands that send a few requests."""

from __future__ import annotations

import os
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.client.credentials import NoCredentials
from fathom.client.kubeconfig import BadKubeconfig
from fathom.client.no_answer import no_answer_text
from fathom.client.server_address import ServerAddress
from fathom.client.servers import find_server
from fathom.seams.outside import live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Answer = dict[str, Any]

ANSWER_S = 30.0
JSON = "application/json"


class NoAnswerNow(Problem):
    """The API server cannot be reached, or has no time: the same request may be answered later."""


class Refused(Problem):
    """The API server refused the request; nothing was changed."""

    def __init__(self, message: str, *, reason: str = "", code: int = 0) -> None:
        super().__init__(message, exit_code=ANSWER_IS_NO)
        self.reason = reason
        self.code = code


def found_server(where: Path | ServerAddress | None) -> ServerAddress:
    """Raises Problem."""
    if isinstance(where, ServerAddress):
        return where
    try:
        return find_server(where, clock=live().clock, environ=os.environ)
    except BadKubeconfig as error:
        raise Problem(str(error)) from error


class ServerConnection:
    """One connection, kept for the requests of a command."""

    def __init__(self, where: Path | ServerAddress | None, *, answer_s: float = ANSWER_S) -> None:
        """`where`: a kubeconfig (None: where kubectl looks), or the server itself. Raises Problem."""
        self._server = found_server(where)
        self._connection = _connection(self._server)
        self._connection.timeout = answer_s
        self._prefix = urlsplit(self._server.url).path
        self.warnings: tuple[str, ...] = ()  # Of the last answer.

    @property
    def url(self) -> str:
        return self._server.url

    def request(
        self, method: str, path: str, body: Answer | None = None, *, media: str = JSON, accept: str = JSON
    ) -> tuple[int, Answer]:
        """HTTP status and body. Raises NoAnswerNow."""
        status, raw = self.raw(method, path, body, media=media, accept=accept)
        try:
            answer = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            answer = {"message": raw[:200].decode("utf-8", "replace")}
        return status, answer if isinstance(answer, dict) else {}

    def raw(
        self, method: str, path: str, body: Answer | None = None, *, media: str = JSON, accept: str = JSON
    ) -> tuple[int, bytes]:
        """HTTP status and body, as it was sent. Raises NoAnswerNow."""
        headers = dict(self._headers(accept))
        content = None if body is None else msgspec.json.encode(body)
        if content is not None:
            headers["content-type"] = media
        try:
            self._connection.request(method, self._prefix + path, content, headers)
            response = self._connection.getresponse()
            raw = response.read()
            self.warnings = tuple(map(_warning, response.headers.get_all("warning") or ()))
        except (OSError, HTTPException) as error:
            self._connection.close()  # The next request opens another.
            raise self._no_answer(error) from error
        return response.status, raw

    def lines(self, path: str, *, seconds: float | None, accept: str = JSON) -> Iterator[bytes]:
        """The lines of an answer that goes on, such as a watch, on a connection of its own; until the time is
        over (None: no limit) or the server ends it. Raises NoAnswerNow."""
        connection = _connection(self._server)
        try:
            connection.timeout = seconds
            connection.request("GET", self._prefix + path, headers=dict(self._headers(accept)))
            response = connection.getresponse()
            if response.status != 200:
                raise NoAnswerNow(_refusal(response.read()) or f"HTTP {response.status} from {self.url}")
            while line := response.readline():
                yield line
        except TimeoutError:
            return
        except (OSError, HTTPException) as error:
            raise self._no_answer(error) from error
        finally:
            connection.close()

    def _no_answer(self, error: Exception) -> NoAnswerNow:
        return NoAnswerNow(no_answer_text(self.url, error))

    def _headers(self, accept: str) -> tuple[tuple[str, str], ...]:
        if self._server.renewing is not None:
            import asyncio  # noqa: PLC0415  # Only for credentials of another program.

            try:
                asyncio.run(self._server.renewing.renew())
            except NoCredentials as error:
                raise Problem(str(error)) from error
        return (("user-agent", "fathom"), ("accept", accept), *self._server.credentials())


def _refusal(raw: bytes) -> str:
    """The message of a Status; '' if the body is none."""
    try:
        answer = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return ""
    return str(answer.get("message") or "") if isinstance(answer, dict) else ""


def _warning(header: str) -> str:
    """The text of a header such as '299 - "text"'."""
    quoted = header.partition(' "')[2].removesuffix('"')
    return quoted.replace('\\"', '"').replace("\\\\", "\\") or header


def _connection(server: ServerAddress) -> HTTPConnection:
    url = urlsplit(server.url)
    host = url.hostname or ""
    if url.scheme == "http":
        return HTTPConnection(host, url.port or 80, timeout=ANSWER_S)
    return TlsConnection(host, url.port or 443, server)


class TlsConnection(HTTPSConnection):
    """`http.client` checks the certificate for the host it connects to; a kubeconfig may name another."""

    def __init__(self, host: str, port: int, server: ServerAddress) -> None:
        super().__init__(host, port, timeout=ANSWER_S, context=server.tls)
        self._server = server

    def connect(self) -> None:
        HTTPConnection.connect(self)
        name = self._server.server_name or self.host
        self.sock = self._server.tls.wrap_socket(self.sock, server_hostname=name)
