"""A real `fathom up` that can be killed at any instant and started again at the same address, and a client
that takes every answer, and none, as an answer."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from tests.clients.running import _until_ready, tls_of

from fathom.model.objects import Obj

STOP_S_MAX = 20
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

# What a dead or dying server looks like from outside.
GONE = (OSError, http.client.HTTPException, ssl.SSLError)


class Answer(msgspec.Struct):
    status: int
    obj: Any

    @property
    def revision(self) -> int:
        return int(self.obj["metadata"]["resourceVersion"])


class Victim:
    """`kill` and `start` may alternate. Everything it ever logged is in `log`."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.data, self.log = directory / "data", directory / "log"
        self._arguments = arguments
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.env: dict[str, str] | None = None  # Of the next start.
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        port = ["--port", str(self._port)]
        command = [
            sys.executable,
            "-m",
            "fathom.cli",
            "serve",
            "api",
            "--data",
            str(self.data),
            *port,
            *self._arguments,
        ]
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=self.env
            )
        said = _until_ready(self._process)
        assert said, f"`fathom serve api` did not get ready:\n{self.log.read_text()}"
        self.url = said[0].split(" on ")[1].split(",")[0]
        self._port = urlsplit(self.url).port or 0
        self.tls = tls_of(self.kubeconfig)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        """As an operator would. It leaves cleanly."""
        assert self.alive, f"the server died:\n{self.log.read_text()}"
        self.signal(signal.SIGTERM)
        self.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> None:
        assert self._process is not None
        assert self._process.wait(STOP_S_MAX) == 0, self.log.read_text()
        self._process.communicate()
        assert "Traceback" not in self.log.read_text(), self.log.read_text()

    def client(self, timeout_s: float = 20) -> Client:
        return Client(urlsplit(self.url).netloc, self.tls, timeout_s)


@contextmanager
def victim(directory: Path, *arguments: str) -> Iterator[Victim]:
    """Started; stopped cleanly at the end, unless the test has killed it."""
    made = Victim(directory, *arguments)
    made.start()
    try:
        yield made
        if made.alive:
            made.stop()
    finally:
        if made.alive:
            made.kill()


class Client:
    """One connection, as the administrator. Raises one of `GONE` when the server does not answer."""

    def __init__(self, address: str, tls: ssl.SSLContext, timeout_s: float) -> None:
        self._connection = http.client.HTTPSConnection(address, context=tls, timeout=timeout_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: Any = None, *, media: str = JSON) -> Answer:
        sent = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, body=sent, headers={"content-type": media})
            answer = self._connection.getresponse()
            return Answer(answer.status, json.loads(answer.read()))
        except GONE:
            self._connection.close()  # The next call connects anew.
            raise

    def get(self, path: str) -> Answer:
        return self.call("GET", path)

    def post(self, path: str, body: Any) -> Answer:
        return self.call("POST", path, body)

    def put(self, path: str, body: Any) -> Answer:
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Any) -> Answer:
        return self.call("PATCH", path, body, media=MERGE_PATCH)

    def delete(self, path: str, body: Any = None) -> Answer:
        return self.call("DELETE", path, body)

    def watch(self, path: str) -> Iterator[Obj]:
        """Events until the stream ends, cleanly or not."""
        joined = f"{path}{'&' if '?' in path else '?'}watch=true"
        try:
            self._connection.request("GET", joined)
            answer = self._connection.getresponse()
            assert answer.status == 200, answer.read()
            while line := answer.readline():
                if line.endswith(b"\n"):  # Else the stream broke inside an event.
                    yield json.loads(line)
        except GONE:
            pass
        finally:
            self._connection.close()


def eventually(check: Callable[[], Any], *, seconds: float = 10) -> Any:
    """The first true answer of `check`; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := check()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)
    return answer
