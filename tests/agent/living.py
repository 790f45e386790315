"""A server and an agent in processes of their own, for tests of what really runs."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.clients.running import Account, Server

from fathom.agent.host.machine import find_rights
from fathom.model.objects import Obj, lookup

NODE = "n1"
PODS = "/api/v1/namespaces/default/pods"
PATIENCE_S = 30.0

# Without a view of files of their own, volumes are not at their mount paths: see docs/agents.md.
enclosed = pytest.mark.skipif(
    not find_rights((), allow_root=False)[0].enclosing, reason="the system permits no mounts"
)


class AgentProcess:
    """`fathom serve agent` beside its server; can be killed and started again."""

    def __init__(self, server: Server, log: Path, *arguments: str, account: Account | None = None) -> None:
        self.server = server
        self._account = account or Account()
        self._log = log
        self._arguments = arguments
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [self._account.python, "-m", "fathom.cli", "serve", "agent", "--up", str(self.server.data)]
        words = [*command, "--node", NODE, "--cpu", "4", "--memory", "4Gi", *self._arguments]
        with self._log.open("a") as errors:
            self.process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=errors, text=True, **self._account.options
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self._log.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(20)


class Cluster:
    def __init__(self, server: Server, agent: AgentProcess) -> None:
        self.server = server
        self.agent = agent
        self._made: list[str] = []

    def run(self, name: str, *words: str, **fields: Any) -> Obj:
        """A pod with one container that runs these words."""
        container = {
            "name": "main",
            "image": "program",
            "command": list(words),
            **fields.pop("container", {}),
        }
        return self.create(name, [container], **fields)

    def create(self, name: str, containers: list[Obj], **spec: Any) -> Obj:
        self._made.append(name)
        whole = {"nodeName": NODE, "terminationGracePeriodSeconds": 2, "containers": containers, **spec}
        return self.server.request("POST", PODS, {"metadata": {"name": name}, "spec": whole})  # type: ignore[no-any-return]  # an object

    def pod(self, name: str) -> Obj:
        found = self.server.request("GET", f"{PODS}?fieldSelector=metadata.name={name}")["items"]
        return found[0] if found else {}

    def until(self, name: str, holds: Callable[[Obj], object], *, within_s: float = PATIENCE_S) -> Obj:
        deadline_s = time.monotonic() + within_s
        while not holds(pod := self.pod(name)):
            assert time.monotonic() < deadline_s, f"not so within {within_s:g} s: {pod.get('status')}"
            time.sleep(0.05)
        return pod

    def until_ready(self, name: str) -> Obj:
        return self.until(name, lambda pod: condition(pod, "Ready") == "True")

    def until_ended(self, name: str) -> Obj:
        return self.until(name, lambda pod: lookup(pod, "status", "phase") in {"Succeeded", "Failed"})

    def delete(self, name: str, **options: Any) -> None:
        self.server.request("DELETE", f"{PODS}/{name}", options or None)

    def until_gone(self, name: str, *, within_s: float = PATIENCE_S) -> None:
        self.until(name, lambda pod: not pod, within_s=within_s)

    def logs(self, name: str, query: str = "") -> str:
        return text(self.server, f"{PODS}/{name}/log?{query}")

    def clean(self) -> None:
        for name in self._made:
            if (found := self.pod(name)) and "deletionTimestamp" not in found["metadata"]:
                self.delete(name, gracePeriodSeconds=1)
        for name in self._made:
            self.until_gone(name)


def processes(word: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in words:
                found.append(int(name))
    return found


def eventually(look: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < deadline_s, f"not so within {within_s:g} s"
        time.sleep(0.05)


@contextmanager
def followed(server: Server, name: str) -> Iterator[http.client.HTTPResponse]:
    """A pod's log, open before anything else is done."""
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=server.tls, timeout=20)
    with closing(connection):
        connection.request("GET", f"{PODS}/{name}/log?follow=true")
        yield connection.getresponse()


def text(server: Server, path: str) -> str:
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=server.tls, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read().decode()
    finally:
        connection.close()


def condition(pod: Obj, type_: str) -> str:
    return next(
        (one["status"] for one in lookup(pod, "status", "conditions") or () if one["type"] == type_), ""
    )


def reason(pod: Obj, type_: str) -> str:
    found = (one for one in lookup(pod, "status", "conditions") or () if one["type"] == type_)
    return next((f"{one.get('reason', '')}: {one.get('message', '')}" for one in found), "")


def status_of(pod: Obj, name: str = "main") -> Obj:
    for field in ("containerStatuses", "initContainerStatuses"):
        for one in lookup(pod, "status", field) or ():
            if one["name"] == name:
                return one  # type: ignore[no-any-return]  # an object
    return {}


def pid_of(pod: Obj, name: str = "main") -> int:
    return int(status_of(pod, name)["containerID"].rpartition("/")[2].partition("-")[0])


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def is_root() -> bool:
    return os.geteuid() == 0
