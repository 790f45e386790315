"""Requests as a browser, or somebody who is none, sends them: every header is the test's."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

import msgspec
from tests.cluster.living import Cluster

Headers = dict[str, str]


class RawAnswer(msgspec.Struct, frozen=True):
    status: int
    headers: Headers  # Lower-case names.
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def message(self) -> str:
        return str(self.json["message"])


def connect(cluster: Cluster) -> http.client.HTTPSConnection:
    """Without any client certificate."""
    context = ssl.create_default_context(cafile=str(cluster.data / "pki" / "ca.crt"))
    return http.client.HTTPSConnection(urlsplit(cluster.url).netloc, context=context, timeout=20)


def raw(
    cluster: Cluster, method: str, path: str, body: Any = None, headers: Headers | None = None
) -> RawAnswer:
    connection = connect(cluster)
    try:
        sent = None if body is None else json.dumps(body)
        media = {} if body is None else {"content-type": "application/json"}
        connection.request(method, path, body=sent, headers={**media, **(headers or {})})
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return RawAnswer(answer.status, found, answer.read().decode())
    finally:
        connection.close()


def log_in(cluster: Cluster, token: str, *, changes: bool = False) -> Headers:
    """The headers of a session's requests: cookie and key."""
    answer = raw(cluster, "POST", "/ui/session", {"token": token, "allowChanges": changes})
    assert answer.status == 200, answer.text
    cookie = answer.headers["set-cookie"].partition(";")[0]
    return {"cookie": cookie, "x-fathom-key": answer.json["key"]}
