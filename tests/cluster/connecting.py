"""A pod to connect to, and what kubectl and the audit log say of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.clients.kubectl import Kubectl
from tests.cluster.living import Cluster, Obj, until

NS = "connected"
SERVER = """
import http.server, os, sys
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (self.path * 1000).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8080), Answers).serve_forever()
"""


def container(name: str, *command: str, **fields: Any) -> Obj:
    env = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    return {"name": name, "image": "program", "command": list(command), "env": env, **fields}


def create(cluster: Cluster, name: str, *containers: Obj, **spec: Any) -> None:
    pod = {"metadata": {"name": name}, "spec": {"containers": list(containers), **spec}}
    cluster.ask("POST", f"/api/v1/namespaces/{NS}/pods", pod)


def until_running(cluster: Cluster, name: str) -> Obj:
    path = f"/api/v1/namespaces/{NS}/pods/{name}"
    until(
        lambda: all(
            "running" in each["state"]
            for each in cluster.ask("GET", path)["status"].get("containerStatuses") or [{"state": {}}]
        ),
        lambda: str(cluster.ask("GET", path)),
    )
    found: Obj = cluster.ask("GET", path)
    return found


def make_pods(cluster: Cluster) -> Obj:
    """One that serves HTTP, one that reads lines, one in a terminal."""
    cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    create(cluster, "web", container("main", "python3", "-c", SERVER), container("side", "sleep", "1000"))
    reads = "while read line; do echo got $line; done; echo bye; echo err >&2"
    create(cluster, "reads", container("main", "sh", "-c", reads, stdin=True, stdinOnce=True),
           restartPolicy="Never")  # fmt: skip
    create(cluster, "shell", container("main", "sh", stdin=True, tty=True), restartPolicy="Never")
    for name in ("reads", "shell"):
        until_running(cluster, name)
    return until_running(cluster, "web")


def audited(cluster: Cluster, subresource: str) -> list[Obj]:
    lines = (cluster.data / "audit" / "audit.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines if f'"subresource":"{subresource}"' in line]
    return [entry for entry in entries if entry.get("namespace") == NS]


@contextmanager
def forwarded(k: Kubectl, *words: str, program: Sequence[str] = ()) -> Iterator[int]:
    """kubectl port-forward, or another program that does it; the local port."""
    command = [*(program or (k.binary,)), "port-forward", *words, "--kubeconfig", str(k.kubeconfig), "-n", NS]
    environment = {**os.environ, "HOME": str(k.home)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.search(r"127.0.0.1:(\d+) ->", line)
        assert match, line
        yield int(match[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.communicate()


def fetch(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return str(answer.read().decode())
