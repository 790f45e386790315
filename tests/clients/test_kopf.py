"""A real kopf operator against a real server: handlers, finalizers, timers, events, a server that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.clients.running import Server, running

GARDENER = Path(__file__).parent / "gardener.py"
NAMESPACE = "garden"
PLANTS = f"/apis/garden.example.com/v1/namespaces/{NAMESPACE}/plants"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
DEFINITION = {
    "metadata": {"name": "plants.garden.example.com"},
    "spec": {
        "group": "garden.example.com",
        "scope": "Namespaced",
        "names": {"plural": "plants", "kind": "Plant"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}


@contextmanager
def operator(server: Server, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", NAMESPACE, str(GARDENER)]
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    with log.open("ab") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def eventually(check: Callable[[], Any], log: Path, within_s: float = 60) -> Any:
    """The first true answer. Refusals (not there yet, server away) are no answer."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if found := check():
                return found
        except (AssertionError, OSError):
            pass
        time.sleep(0.1)
    pytest.fail(f"not within {within_s} s; the operator said:\n{log.read_text()[-4000:]}")


def plant(name: str, colour: str) -> dict[str, Any]:
    meta = {"name": name}
    return {
        "apiVersion": "garden.example.com/v1",
        "kind": "Plant",
        "metadata": meta,
        "spec": {"colour": colour},
    }


def colour_of(server: Server, name: str) -> str:
    return str(server.request("GET", f"{MAPS}/pot-{name}")["data"]["colour"])


def gone(server: Server, path: str) -> bool:
    collection, _, name = path.rpartition("/")
    listed = server.request("GET", f"{collection}?fieldSelector=metadata.name={name}")
    return not listed["items"]


def prepare(server: Server) -> None:
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)


def test_an_operator_keeps_its_garden(tmp_path: Path) -> None:
    log = tmp_path / "operator.log"
    with running(tmp_path) as server:
        prepare(server)
        with operator(server, log):
            server.request("POST", PLANTS, plant("rose", "red"))
            eventually(lambda: colour_of(server, "rose") == "red", log)
            held = eventually(
                lambda: server.request("GET", f"{PLANTS}/rose")["metadata"].get("finalizers"), log
            )
            assert held == ["kopf.zalando.org/KopfFinalizerMarker"]
            server.patch(f"{PLANTS}/rose", {"spec": {"colour": "white"}})
            eventually(lambda: colour_of(server, "rose") == "white", log)
            eventually(lambda: server.request("GET", f"{PLANTS}/rose")["status"]["watered"] >= 3, log)
            status = server.request("GET", f"{PLANTS}/rose")["status"]
            assert status["planted"] == {"pot": "pot-rose"}
            told = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name=rose"
            eventually(lambda: server.request("GET", told)["items"], log)
            server.request("DELETE", f"{PLANTS}/rose")
            eventually(lambda: gone(server, f"{PLANTS}/rose"), log)
            eventually(lambda: not gone(server, f"{MAPS}/farewell-rose"), log)
            eventually(lambda: gone(server, f"{MAPS}/pot-rose"), log)  # By its owner reference.


def start(data: Path, port: str, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fathom.cli", "up", "--data", str(data), "--port", port]
    with log.open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out)


def test_an_operator_outlives_its_server(tmp_path: Path) -> None:
    log, said = tmp_path / "operator.log", tmp_path / "server.log"
    with running(tmp_path) as first:  # Makes the data, and leaves.
        prepare(first)
        port = first.url.rpartition(":")[2]
    process = start(first.data, port, said)
    try:
        eventually(lambda: first.request("GET", PLANTS), said)
        with operator(first, log):
            first.request("POST", PLANTS, plant("fern", "green"))
            eventually(lambda: colour_of(first, "fern") == "green", log)
            process.kill()
            process.wait(10)
            process = start(first.data, port, said)
            eventually(lambda: first.request("GET", f"{PLANTS}/fern"), said)
            first.request("POST", PLANTS, plant("moss", "dark"))
            eventually(lambda: colour_of(first, "moss") == "dark", log)
            watered = first.request("GET", f"{PLANTS}/fern")["status"]["watered"]
            eventually(lambda: first.request("GET", f"{PLANTS}/fern")["status"]["watered"] > watered, log)
    finally:
        process.kill()
        process.wait(10)
