"""A client of several servers, of which one may stop at any time."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from typing import Any

from tests.chaos.victim import GONE


class Endpoints:
    """A client that knows several servers: it goes to another one if it cannot connect, and counts every
    request that was sent and not answered."""

    def __init__(self, places: list[tuple[str, ssl.SSLContext]]) -> None:
        """`places`: HOST:PORT, and how to talk to it."""
        self._addresses = list(places)
        self._connection: http.client.HTTPSConnection | None = None
        self.failed: list[str] = []

    def call(self, method: str, path: str, body: Any = None, *, token: str = "") -> int:
        headers = {"content-type": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        connection = self._connected()
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
        except GONE as error:
            self.failed.append(f"{method} {path}: {error!r}")
            self._close()
            return 0
        if answer.status >= 500:
            self.failed.append(f"{method} {path}: {answer.status} {said[:500]!r}")
        if answer.headers.get("connection") == "close":
            self._close()
            self._addresses.append(self._addresses.pop(0))
        return answer.status

    def _connected(self) -> http.client.HTTPSConnection:
        deadline = time.monotonic() + 30
        while self._connection is None:
            address, tls = self._addresses[0]
            connection = http.client.HTTPSConnection(address, context=tls, timeout=20)
            try:
                connection.connect()
                self._connection = connection
            except (OSError, ssl.SSLError):
                assert time.monotonic() < deadline, "no server can be connected to"
                self._addresses.append(self._addresses.pop(0))
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
