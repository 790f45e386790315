"""A Kubernetes that is not fathom's at all, where $FATHOM_KUBECONFIG names one. It should have a
kube-controller-manager, no kubelets and no kube-scheduler, and nobody else should use it: namespaces, pods,
claims, volumes, storage classes and nodes are deleted.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.api.harness import Answer
from tests.clients.kubectl import eventually
from tests.clients.running import Kubernetes, Server, kubernetes_of

from fathom.attach.installing import remove
from fathom.client.http import ServerAddress
from fathom.client.once import api_of

API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.ask.fathom.dev"
FOREIGN = os.environ.get("FATHOM_KUBECONFIG", "")
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
EVENTS = "/api/v1/namespaces/default/events"
CLAIMS, VOLUMES = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
URGENT = "/apis/scheduling.k8s.io/v1/priorityclasses/urgent"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/scheduleroverrides.fathom.dev"
NAMESPACES = 4  # default, kube-system, kube-public, kube-node-lease.
BEAT_S = 10.0  # A node whose lease is not renewed for 50 s gets unknown.
NOT_READY = "node.kubernetes.io/not-ready"


@contextmanager
def real_cluster() -> Iterator[Kubernetes]:
    """Without what an earlier test left. Nodes that a test adds stay ready."""
    server = kubernetes_of(Path(FOREIGN))
    refuse_kubelets(server)
    remove_all(server)
    heartbeats = Heartbeats(server)
    heartbeats.start()
    try:
        yield server
    finally:
        heartbeats.over.set()
        heartbeats.join(30)
        remove_all(server)


def refuse_kubelets(server: Kubernetes) -> None:
    for node in server.request("GET", NODES)["items"]:
        if (node["status"].get("nodeInfo") or {}).get("kubeletVersion"):
            pytest.fail(f"node {node['metadata']['name']} has a kubelet: these tests delete nodes and pods")


def remove_all(server: Kubernetes) -> None:
    server.answer("DELETE", API_SERVICE)  # Where nobody answers it, no namespace ends.
    for namespace in server.request("GET", "/api/v1/namespaces")["items"]:
        name = namespace["metadata"]["name"]
        if name != "default" and not name.startswith("kube-"):
            server.request("DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
            server.request("DELETE", f"/api/v1/namespaces/{name}")
    for path in (f"{PODS}?gracePeriodSeconds=0", EVENTS, CLAIMS, VOLUMES, CLASSES, NODES, LEASES):
        server.request("DELETE", path)
    for path in (URGENT, DEFINITION):
        server.answer("DELETE", path)
    eventually(lambda: server.answer("GET", DEFINITION)[0] == 404, seconds=60)
    eventually(lambda: not server.request("GET", "/api/v1/pods")["items"], seconds=60)
    eventually(lambda: len(server.request("GET", "/api/v1/namespaces")["items"]) <= NAMESPACES, seconds=60)
    with ThreadPoolExecutor() as threads:  # The caller may have a loop of its own.
        threads.submit(asyncio.run, detach(server)).result()


async def detach(server: Kubernetes) -> None:
    token = (("authorization", f"Bearer {server.token}"),) if server.token else ()
    async with api_of(ServerAddress(server.url, server.tls, lambda: token)) as api:
        await remove(api)


class RealApi:
    """Asked as the servers of other tests are, by the administrator."""

    def __init__(self, server: Kubernetes) -> None:
        self.server = server

    async def call(self, method: str, path: str, body: Any = None, media: str = "json") -> Answer:
        status, text = await asyncio.to_thread(
            self.server.answer, method, path, body, media=f"application/{media}"
        )
        return Answer(status, json.loads(text) if text.startswith("{") else {"message": text}, {})

    async def get(self, path: str) -> Answer:
        return await self.call("GET", path)

    async def post(self, path: str, body: Any) -> Answer:
        if path == NODES:
            await asyncio.to_thread(add_node, self.server, body)
            return await self.get(f"{NODES}/{body['metadata']['name']}")
        return await self.call("POST", path, body)

    async def patch(self, path: str, body: Any, kind: str = "merge") -> Answer:
        media = {"merge": "merge-patch", "strategic": "strategic-merge-patch"}
        return await self.call("PATCH", path, body, f"{media[kind]}+json")

    async def delete(self, path: str, body: Any = None) -> Answer:
        return await self.call("DELETE", path, body)

    async def eventually(self, check: Callable[[], Awaitable[bool]], timeout_s: float = 5.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not await check():
                await asyncio.sleep(0.1)


def config_of_account(server: Kubernetes, folder: Path) -> Path:
    """A kubeconfig of the installed service account, which has the installed roles and no others."""
    path = "/api/v1/namespaces/fathom-system/serviceaccounts/fathom/token"
    token = server.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"] = [{"name": "account", "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = "account"
    config["current-context"] = config["contexts"][0]["name"]
    file = folder / "config"
    file.write_text(yaml.safe_dump(config))
    return file


def add_node(server: Kubernetes, node: dict[str, Any]) -> None:
    """Ready as far as the server's controllers are concerned, where it has some."""
    if isinstance(server, Server):
        server.request("POST", NODES, node)
        return
    name, now = node["metadata"]["name"], _now()
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    status = {**node["status"], "conditions": [{**ready, "reason": "Test", "message": "no kubelet"}]}
    server.request("POST", NODES, {**node, "status": status})
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _micro_now()}
    server.request("POST", LEASES, {"metadata": {"name": name}, "spec": spec})

    def is_taken() -> bool:
        taints = server.request("GET", f"{NODES}/{name}")["spec"].get("taints") or ()
        return not any(taint["key"] == NOT_READY for taint in taints)

    eventually(is_taken, seconds=60)


class Heartbeats(threading.Thread):
    """Renews the leases of all nodes, as kubelets do."""

    def __init__(self, server: Kubernetes) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self._server = server

    def run(self) -> None:
        while not self.over.wait(BEAT_S):
            for lease in self._server.request("GET", LEASES)["items"]:
                path = f"{LEASES}/{lease['metadata']['name']}"
                self._server.patch(path, {"spec": {"renewTime": _micro_now()}})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
