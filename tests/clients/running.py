"""A real `fathom serve api` in another process, as client tests meet it: over TLS, with its kubeconfig."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from fathom.client.kubeconfig import read_context, token_of
from fathom.client.kubeconfig import tls_of as tls_of_context

STOP_S_MAX = 20


@dataclass(frozen=True)
class Account:
    """As whom `fathom` is run, and by which Python; without one as we are."""

    python: str = sys.executable
    options: dict[str, Any] = field(default_factory=dict)  # Of `subprocess.Popen`.


def ordinary_account(uid: int) -> Account | None:
    """A user with no rights of its own; None where no Python that it may run has our packages."""
    paths = [path for path in sys.path if path.endswith(("site-packages", "/src"))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HOME": "/"}
    options: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": [], "env": env, "cwd": "/"}
    for python in (sys.executable, "/usr/bin/python3"):
        words = [python, "-c", "import fathom.cli.cluster.agents, fathom.agent.live"]
        try:
            if not subprocess.run(words, **options, capture_output=True, timeout=60, check=False).returncode:
                return Account(python, options)
        except OSError:
            continue
    return None


@dataclass(frozen=True, kw_only=True)
class Kubernetes:
    """An API server that somebody runs, ours or another."""

    url: str
    kubeconfig: Path
    tls: ssl.SSLContext
    token: str = ""

    def request(self, method: str, path: str, body: Any = None, *, media: str = "application/json") -> Any:
        """One request as the administrator, for what a test needs but does not test. Refusals fail."""
        status, text = self.answer(method, path, body, media=media)
        assert status < 300, f"{method} {path}: {status} {text}"
        return json.loads(text)

    def answer(
        self, method: str, path: str, body: Any = None, *, media: str = "application/json"
    ) -> tuple[int, str]:
        connection = http.client.HTTPSConnection(urlsplit(self.url).netloc, context=self.tls, timeout=20)
        try:
            sent = None if body is None else json.dumps(body)
            headers = {"content-type": media}
            if self.token:
                headers["authorization"] = f"Bearer {self.token}"
            connection.request(method, path, body=sent, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def patch(self, path: str, body: Any) -> Any:
        """What a controller would write, most often a status."""
        return self.request("PATCH", path, body, media="application/merge-patch+json")


def kubernetes_of(kubeconfig: Path) -> Kubernetes:
    """The cluster of a kubeconfig's current context."""
    context = read_context([kubeconfig])
    return Kubernetes(
        url=context.url.geturl(), kubeconfig=kubeconfig, tls=tls_of_context(context), token=token_of(context)
    )


@dataclass(frozen=True, kw_only=True)
class Server(Kubernetes):
    """A server that the test started."""

    process: subprocess.Popen[str]
    data: Path
    log: Path


def server_of(process: subprocess.Popen[str], url: str, data: Path, log: Path) -> Server:
    kubeconfig = data / "kubeconfig"
    return Server(process=process, url=url, data=data, log=log, kubeconfig=kubeconfig, tls=tls_of(kubeconfig))


@contextmanager
def running(
    directory: Path, *arguments: str, account: Account | None = None, port: str = "0"
) -> Iterator[Server]:
    """A server that has said `ready`. At the end it must stop cleanly, having logged no traceback. `port`:
    '0' is any that is free."""
    account = account or Account()
    data, log = directory / "data", directory / "log"
    command = [
        account.python,
        "-m",
        "fathom.cli",
        "serve",
        "api",
        "--data",
        str(data),
        "--port",
        port,
        *arguments,
    ]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, **account.options
        )
    try:
        said = _until_ready(process)
        assert said, f"`fathom serve api` did not get ready:\n{log.read_text()}"
        url = said[0].split(" on ")[1].split(",")[0]
        yield server_of(process, url, data, log)
        assert process.poll() is None, f"the server died:\n{log.read_text()}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S_MAX) == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        process.kill()
        process.communicate()


def _until_ready(process: subprocess.Popen[str]) -> list[str]:
    """What it said until then; nothing when it ended first."""
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        if line == "ready\n":
            return said
        said.append(line.rstrip("\n"))
    return []


def client_tls(kubeconfig: Path) -> ssl.SSLContext:
    """Of somebody without a certificate."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return ssl.create_default_context(cadata=authority)


def tls_of(kubeconfig: Path) -> ssl.SSLContext:
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    context = client_tls(kubeconfig)
    with tempfile.NamedTemporaryFile() as pair:
        for part in ("client-certificate-data", "client-key-data"):
            pair.write(base64.b64decode(user[part]))
        pair.flush()
        context.load_cert_chain(pair.name)
    return context
