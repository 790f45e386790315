"""A large cluster as objects alone, on an API server without controllers: nodes, pods, and changes."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from tests.clients.running import Server

NODES, PODS, ZONES = 100, 1_000, 5
NAMESPACE = "/api/v1/namespaces/default"
READY = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}]


class Sender:
    """One connection, kept."""

    def __init__(self, server: Server) -> None:
        self._connection = http.client.HTTPSConnection(
            urlsplit(server.url).netloc, context=server.tls, timeout=30
        )

    def send(self, method: str, path: str, body: Any, media: str = "application/json") -> None:
        self._connection.request(method, path, json.dumps(body), {"content-type": media})
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status < 300, text

    def status(self, path: str, status: Any) -> None:
        self.send("PATCH", f"{path}/status", {"status": status}, "application/merge-patch+json")

    def close(self) -> None:
        self._connection.close()


def fill(server: Server) -> None:
    sender = Sender(server)
    for number in range(NODES):
        labels = {"topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
        sender.send("POST", "/api/v1/nodes", {"metadata": {"name": f"node-{number}", "labels": labels}})
        room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        status = {"allocatable": room, "capacity": room, "conditions": READY}
        sender.status(f"/api/v1/nodes/node-{number}", status)
    for number in range(PODS):
        sender.send("POST", f"{NAMESPACE}/pods", pod(number))
        sender.status(f"{NAMESPACE}/pods/pod-{number}", running(number, 0))
    sender.close()


def pod(number: int) -> Any:
    requests = {"cpu": "250m", "memory": "512Mi"}
    container = {"name": "main", "image": "sleeper:1", "resources": {"requests": requests}}
    labels = {"app": f"app-{number % 40}", "team": f"team-{number % 7}"}
    return {
        "metadata": {"name": f"pod-{number}", "labels": labels},
        "spec": {"nodeName": f"node-{number % NODES}", "containers": [container]},
    }


def running(number: int, turn: int) -> Any:
    ready = "True" if (number + turn) % 50 else "False"
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": ready, "message": f"turn {turn}"}]}


class Changes:
    """So many changes of pods a second, by a thread, until it is left."""

    def __init__(self, server: Server, per_s: int) -> None:
        self._sender = Sender(server)
        self._per_s = per_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.seconds = 0.0

    def __enter__(self) -> Changes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._sender.close()

    def _run(self) -> None:
        began_s = time.monotonic()
        for count in itertools.count():
            number = count * 7 % PODS
            self._sender.status(f"{NAMESPACE}/pods/pod-{number}", running(number, count))
            self.sent, self.seconds = count + 1, time.monotonic() - began_s
            if self._over.wait(max(0.0, (count + 1) / self._per_s - self.seconds)):
                return
