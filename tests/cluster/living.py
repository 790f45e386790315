"""A real `fathom up`: a supervisor, its parts, and the pods that they run, on this machine."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from tests.clients.running import tls_of

PATIENCE_S = 60.0
ENDED = frozenset({"Succeeded", "Failed"})

Obj = dict[str, Any]


class Cluster:
    def __init__(self, directory: Path, *arguments: str) -> None:
        self.data = directory / "data"
        self._arguments = arguments
        self._out = directory / "out"

    # Its life.

    def start(self) -> None:
        command = [sys.executable, "-m", "fathom.cli", "up", "--data", str(self.data), "--port", "0"]
        with self._out.open("w") as out:
            self.process = subprocess.Popen([*command, *self._arguments], stdout=out, stderr=out)
        until(lambda: "ready\n" in self._out.read_text(), self.told)
        config = yaml.safe_load((self.data / "kubeconfig").read_text())
        self.url = str(config["clusters"][0]["cluster"]["server"])
        self._tls: ssl.SSLContext = tls_of(self.data / "kubeconfig")

    def told(self) -> str:
        logs = [
            f"{file.name}: {file.read_text()[-2000:]}" for file in sorted((self.data / "logs").glob("*.log"))
        ]
        return "\n".join([self._out.read_text(), *logs])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0, self.told()

    def kill(self) -> None:
        """The supervisor and all its parts, at once. Pods are not among them."""
        for pid in (self.process.pid, *self.parts().values()):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """With everything that it ran."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for file in self.data.glob("agents/*/pods/*/runs/*/*/run.json"):
            record = json.loads(file.read_text())
            for who in ("shim", "pid"):
                kill_recorded(record[who], record[f"{who}_started"])

    def parts(self) -> dict[str, int]:
        found = {}
        for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue  # It has ended meanwhile.
            if "serve" in words:
                found[words[words.index("serve") + 1]] = int(pid)
        return found

    # Talking to it.

    def ask(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
        connection = http.client.HTTPSConnection(urlsplit(self.url).netloc, context=self._tls, timeout=20)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, body=sent, headers={"content-type": media})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
        return json.loads(text) if text.startswith("{") else text

    def patch(self, path: str, body: Any) -> Any:
        return self.ask("PATCH", path, body, "application/merge-patch+json")

    def pods(self, app: str) -> list[Obj]:
        found: list[Obj] = self.ask("GET", f"/api/v1/namespaces/default/pods?labelSelector=app%3D{app}")[
            "items"
        ]
        return found

    def ready(self, app: str) -> list[Obj]:
        return [pod for pod in self.pods(app) if _is_ready(pod)]

    def until_ready(self, app: str, count: int) -> list[Obj]:
        until(
            lambda: len(self.ready(app)) == count and len(self.pods(app)) == count,
            lambda: str(self.pods(app)),
        )
        return self.ready(app)

    def fetch(self, service: str) -> str:
        """One request to a Service's address, through the gateway."""
        address = self.ask("GET", f"/api/v1/namespaces/default/services/{service}")["spec"]["clusterIP"]
        with urllib.request.urlopen(f"http://{address}/", timeout=5) as answer:
            return str(answer.read().decode())


def kill_recorded(pid: int, started: int) -> None:
    """If it is still the process that was recorded: numbers are used again."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        if pid > 1 and int(stat.rpartition(") ")[2].split()[19]) == started:
            os.kill(pid, signal.SIGKILL)


def _is_ready(pod: Obj) -> bool:
    conditions = pod["status"].get("conditions", ())
    return not pod["metadata"].get("deletionTimestamp") and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def until(check: Callable[[], Any], told: Callable[[], str], within_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < deadline_s, told()
        time.sleep(0.1)


# What it is asked to run. Every answer says which process it came from.
PROGRAM = """
import http.server, os
class Here(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = f"{os.environ['POD_NAME']} {os.environ['WORD']} {os.getpid()}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
print("listening", flush=True)
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8080), Here).serve_forever()
"""


def deployment(app: str, replicas: int, word: str = "one", *, lingers_s: int = 0) -> Obj:
    """With `lingers_s` a pod that ends serves on for so long: until the gateway has heard of it."""

    def field(name: str, path: str) -> Obj:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    container: Obj = {
        "name": "main",
        "image": "python",
        "command": ["python3", "-c", PROGRAM],  # Pods are nobody: they may not see the tests' own.
        "env": [
            field("POD_IP", "status.podIP"),
            field("POD_NAME", "metadata.name"),
            {"name": "WORD", "value": word},
        ],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
    }
    if lingers_s:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": lingers_s}}}
    template = {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": lingers_s + 1},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template},
    }


def service(app: str) -> Obj:
    ports = [{"port": 80, "targetPort": 8080}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": app},
        "spec": {"selector": {"app": app}, "ports": ports},
    }
