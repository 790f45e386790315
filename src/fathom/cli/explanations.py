"""Asks the API server to explain objects. Small and without an event loop: a question is one request.

POST /apis/fathom.dev/v1alpha1/namespaces/NS/explanations   spec: {subject, at, …} -> status: the answer
"""

from __future__ import annotations

import os
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec

from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.client.credentials import NoCredentials
from fathom.client.kubeconfig import BadKubeconfig
from fathom.client.servers import find_server
from fathom.seams.outside import live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fathom.client.server_address import ServerAddress

Answer = dict[str, Any]

ANSWER_S = 30.0
SYSTEM_NAMESPACE = "fathom-system"  # Of answers about objects that have no namespace.
OWN_KINDS = "/apis/fathom.dev/v1alpha1"
# Kinds that a bare name may mean, and where their objects are; {} is the namespace's part of the path.
NAMED_KINDS = {
    "pod": "/api/v1{}/pods",
    "deployment": "/apis/apps/v1{}/deployments",
    "replicaset": "/apis/apps/v1{}/replicasets",
    "job": "/apis/batch/v1{}/jobs",
    "service": "/api/v1{}/services",
    "horizontalpodautoscaler": "/apis/autoscaling/v2{}/horizontalpodautoscalers",
    "poddisruptionbudget": "/apis/policy/v1{}/poddisruptionbudgets",
    "scheduleroverride": OWN_KINDS + "{}/scheduleroverrides",
    "node": "/api/v1/nodes",
    "policyrollout": OWN_KINDS + "/policyrollouts",
}
WITHOUT_NAMESPACE = frozenset({"node", "nodes", "no", "policyrollout", "policyrollouts", "prl", "namespace"})


# What the answer of each view has at least.
FIELDS_OF_VIEWS = {
    "": frozenset({"summary"}),
    "status": frozenset({"pendingReplicas", "lastReason"}),
    "stuck": frozenset({"items"}),
}


# What API servers say of a kind that they do not know.
NO_SUCH_PATH = "the server could not find the requested resource"
ANSWERS_NO_QUESTIONS = "this API server does not answer questions: it is not fathom, or older than 0.1"


class NoAnswerNow(Problem):
    """The API server cannot be reached, or has no time: the same question may be answered later."""


class NoSuchObject(Problem):
    """There is no such object as the question's, and nothing is on record about one."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question about one object, as the user wrote it."""

    kind: str
    name: str
    namespace: str
    at: str = ""
    what_if: tuple[str, ...] = ()
    view: str = ""  # 'status', 'stuck'; '' is why.


class ApiServer:
    """A connection to the API server, kept for the few requests of a command."""

    def __init__(self, kubeconfig: Path | None, *, answer_s: float = ANSWER_S) -> None:
        """Raises Problem."""
        try:
            self._server = find_server(kubeconfig, clock=live().clock, environ=os.environ)
        except BadKubeconfig as error:
            raise Problem(str(error)) from error
        self._connection = _connection(self._server)
        self._connection.timeout = answer_s
        self._prefix = urlsplit(self._server.url).path
        self.warnings: tuple[str, ...] = ()  # Of the last answer.

    @property
    def url(self) -> str:
        return self._server.url

    def explain(self, question: Question) -> Answer:
        """Raises Problem."""
        namespace = SYSTEM_NAMESPACE if question.kind.lower() in WITHOUT_NAMESPACE else question.namespace
        spec: Answer = {"subject": {"kind": question.kind, "name": question.name}}
        if question.at:
            spec["at"] = question.at
        if question.what_if:
            spec["whatIf"] = list(question.what_if)
        if question.view:
            spec["view"] = question.view
        explanation = self.ask("Explanation", "explanations", spec, namespace)
        if not FIELDS_OF_VIEWS[question.view] <= explanation.keys():
            raise Problem(ANSWERS_NO_QUESTIONS)  # It has such a kind, but does not know the view.
        return explanation

    def ask(self, kind: str, plural: str, spec: Answer, namespace: str) -> Answer:
        """Raises Problem."""
        body = {"apiVersion": "fathom.dev/v1alpha1", "kind": kind, "spec": spec}
        status, answer = self.request("POST", f"{OWN_KINDS}{_in_namespace(namespace)}/{plural}", body)
        if status not in {200, 201}:
            raise _problem(status, answer)
        answered: Answer = answer.get("status") or {}
        return answered

    def kinds_of(self, name: str, namespace: str) -> list[str]:
        """The kinds of which an object has this name."""
        found = []
        for kind, path in NAMED_KINDS.items():
            status, answer = self.request(
                "GET", f"{path.format(_in_namespace(namespace))}/{quote(name, safe='')}"
            )
            if status == 401:
                raise Problem(str(answer.get("message") or "the API server does not know the user"))
            if status == 200:
                found.append(kind)
        return found

    def request(
        self, method: str, path: str, body: Answer | None = None, *, media: str = "application/json"
    ) -> tuple[int, Answer]:
        """HTTP status and body. Raises NoAnswerNow."""
        headers = dict(self._headers())
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
            raise NoAnswerNow(
                f"{self._server.url} does not answer: {error or type(error).__name__}"
            ) from error
        try:
            answer = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            answer = {"message": raw[:200].decode("utf-8", "replace")}
        return response.status, answer if isinstance(answer, dict) else {}

    def lines(self, path: str, *, seconds: float) -> Iterator[bytes]:
        """The lines of an answer that goes on, such as a watch, on a connection of its own; until the time is
        over or the server ends it. Raises NoAnswerNow."""
        connection = _connection(self._server)
        try:
            connection.timeout = seconds
            connection.request("GET", self._prefix + path, headers=dict(self._headers()))
            response = connection.getresponse()
            if response.status != 200:
                raise NoAnswerNow(f"{self._server.url} answered a watch with HTTP {response.status}")
            while line := response.readline():
                yield line
        except TimeoutError:
            return
        except (OSError, HTTPException) as error:
            raise NoAnswerNow(
                f"{self._server.url} does not answer: {error or type(error).__name__}"
            ) from error
        finally:
            connection.close()

    def _headers(self) -> tuple[tuple[str, str], ...]:
        if self._server.renewing is not None:
            import asyncio  # noqa: PLC0415  # Only for credentials of another program.

            try:
                asyncio.run(self._server.renewing.renew())
            except NoCredentials as error:
                raise Problem(str(error)) from error
        return (("user-agent", "fathom"), ("accept", "application/json"), *self._server.credentials())


def answers_no_questions(status: int, reason: str, message: str) -> bool:
    """Whether the server does not know the kind of the question."""
    return status in {405, 501} or (status == 404 and (not reason or message == NO_SUCH_PATH))


def _problem(status: int, answer: Answer) -> Problem:
    message = str(answer.get("message") or f"the API server answered with HTTP {status}")
    if answers_no_questions(status, str(answer.get("reason") or ""), message):
        return Problem(ANSWERS_NO_QUESTIONS)
    if status == 429 or status >= 500:
        return NoAnswerNow(message)
    if status == 404 and (answer.get("details") or {}).get("name"):
        return NoSuchObject(message, exit_code=ANSWER_IS_NO)
    return Problem(message)


def _in_namespace(namespace: str) -> str:
    return f"/namespaces/{quote(namespace, safe='')}"


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
