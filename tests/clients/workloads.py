"""A cluster without machines: a real server, the real controllers in a process of their own, and somebody who
says that pods run."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.objects import Obj
from tests.clients.running import Server

from fathom.controllers.all import WORKLOADS

STOP_S_MAX = 20
LOOK_S = 0.05
NODE = "node-1"


@contextmanager
def controllers(server: Server, log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "fathom.cli", "serve", "controllers"]
    command += ["--kubeconfig", str(server.kubeconfig)]
    for name in WORKLOADS:
        command += ["--only", name]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stderr=errors)
    try:
        yield
        assert process.poll() is None, f"the controllers died:\n{log.read_text()}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S_MAX) == 0, log.read_text()
        assert "reconcile raised an exception" not in log.read_text(), log.read_text()
    finally:
        process.kill()
        process.wait()


class Machines:
    """Binds what is not bound, and makes of each pod what its image says: 'broken' never gets ready, 'done'
    ends well and 'fails' does not, everything else runs."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Machines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            for pod in self._server.request("GET", "/api/v1/pods")["items"]:
                try:
                    self._look_at(pod)
                except AssertionError:  # Somebody was faster: the next look will tell.
                    continue

    def _look_at(self, pod: Obj) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        phase = pod["status"]["phase"]
        if "deletionTimestamp" in meta:
            if phase in {"Pending", "Running"}:
                self._server.patch(f"{path}/status", {"status": {"phase": "Failed"}})
            self._server.request("DELETE", path, {"gracePeriodSeconds": 0})
        elif "nodeName" not in pod["spec"]:
            target = {"kind": "Node", "name": NODE}
            self._server.request(
                "POST", f"{path}/binding", {"metadata": {"name": meta["name"]}, "target": target}
            )
        elif phase == "Pending":
            self._server.patch(f"{path}/status", {"status": _status(pod)})


def _status(pod: Obj) -> Obj:
    image, name = pod["spec"]["containers"][0]["image"], pod["metadata"]["name"]
    ready = "broken" not in image
    phase = "Succeeded" if "done" in image else "Failed" if "fails" in image else "Running"
    condition = {
        "type": "Ready",
        "status": "True" if ready and phase == "Running" else "False",
        "lastTransitionTime": pod["metadata"]["creationTimestamp"],
    }
    number = sum(name.encode()) % 250
    return {"phase": phase, "conditions": [condition], "podIP": f"10.1.{len(name)}.{number}"}
