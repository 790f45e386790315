"""A live cluster for examples: its processes, a proxy that holds back a watch, a user of one namespace."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from fathom.client.kubeconfig import read_context, tls_of

Obj = dict[str, Any]

PATIENCE_S = 90.0
MERGE = "application/merge-patch+json"
HOP_HEADERS = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})


class WrongAnswer(Exception):
    """A view did not show what it should."""


# The proxy.


class QuotaWatchProxy:
    """Forwards everything to the API server, as the scheduler. From `hold` to `release`, answers to requests
    for TenantQuotas stay here. It has the certificate of the API server, so the scheduler trusts it."""

    def __init__(self, upstream: Path, pki: Path) -> None:
        context = read_context([upstream])
        self._own_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._own_tls.load_cert_chain(pki / "server.pem")
        self._url = context.url.geturl()
        self._tls = tls_of(context)
        self._loop = asyncio.new_event_loop()
        self._open: asyncio.Event
        self._end: asyncio.Event
        self._started = threading.Event()
        self.port = 0

    def start(self) -> None:
        threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True).start()
        if not self._started.wait(10):
            raise TimeoutError("the proxy did not start")

    def hold(self) -> None:
        async def close() -> None:
            self._open.clear()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(10)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)

    async def _serve(self) -> None:
        self._open, self._end = asyncio.Event(), asyncio.Event()
        self._open.set()
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", self._forward)
        runner = web.AppRunner(application, access_log=None)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
        ) as self._session:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._own_tls).start()
            self.port = runner.addresses[0][1]
            self._started.set()
            await self._end.wait()
            await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except aiohttp.ClientError as error:  # The API server stops first.
            return web.Response(status=502, text=str(error))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_HEADERS}
        held = request.method == "GET" and "/tenantquotas" in request.path
        async with self._session.request(
            request.method, self._url + request.path_qs, data=await request.read() or None, headers=headers
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_HEADERS}
            kept.pop("Content-Encoding", None)  # Already decoded.
            response = web.StreamResponse(status=answer.status, headers=kept)
            if held:
                await self._open.wait()
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                if held:
                    await self._open.wait()
                await response.write(piece)
            await response.write_eof()
            return response


# The cluster.


class Cluster:
    def __init__(self, directory: Path, *, nodes: int, zones: Sequence[str]) -> None:
        self.data = directory / "data"
        self._directory = directory
        self._nodes, self._zones = nodes, zones
        self.processes: dict[str, subprocess.Popen[bytes]] = {}  # By part, in the order of their start.

    def start(self) -> None:
        self._serve("api", "--port", "0", "--data", str(self.data))
        until(lambda: b"ready" in self._log("api").read_bytes(), "the API server is ready", self.logs)
        context = read_context([self.data / "kubeconfig"])
        self._address, self._tls = context.url.netloc, tls_of(context)
        credentials = self.data / "credentials"
        self.proxy = self.make_proxy(credentials / "scheduler", self.data / "pki")
        self.proxy.start()
        scheduler = through(
            credentials / "scheduler", self.proxy.port, self._directory / "scheduler-kubeconfig"
        )
        self._serve("scheduler", "--kubeconfig", str(scheduler), "--data", str(self.data))
        self._serve("controllers", "--kubeconfig", str(credentials / "controllers"), "--data", str(self.data))
        self._start_nodes()

    def make_proxy(self, upstream: Path, pki: Path) -> QuotaWatchProxy:
        return QuotaWatchProxy(upstream, pki)

    def _start_nodes(self) -> None:
        self.start_agents("agent", "--node", "node", "--nodes", str(self._nodes))
        until(lambda: self.ready_nodes() == self._nodes, "all nodes are ready", self.logs)

    def start_agents(self, name: str, *nodes: str) -> None:
        """One process for nodes whose containers are simulated."""
        size = ("--cpu", "8", "--memory", "16Gi", "--zones", ",".join(self._zones))
        data = ("--up", str(self.data), "--data", str(self._directory / name))
        self._serve("agent", "--driver", "simulated", *data, *nodes, *size, name=name)

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if hasattr(self, "proxy"):
            self.proxy.stop()

    def logs(self) -> str:
        files = sorted(self._directory.glob("*.log"))
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-1500:]}" for file in files)

    def _log(self, part: str) -> Path:
        return self._directory / f"{part}.log"

    def _serve(self, part: str, *arguments: str, name: str = "") -> None:
        command = [sys.executable, "-m", "fathom.cli", "serve", part, *arguments]
        with self._log(name or part).open("wb") as log:
            self.processes[name or part] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._directory
            )

    # Requests of the administrator.

    def request(
        self, method: str, path: str, body: Obj | None = None, media: str = "application/json"
    ) -> Obj:
        connection = http.client.HTTPSConnection(self._address, context=self._tls, timeout=20)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, body=content, headers={"content-type": media})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text}")
        document: Obj = json.loads(text)
        return document

    def patch(self, path: str, body: Obj) -> Obj:
        return self.request("PATCH", path, body, MERGE)

    def create(self, path: str, kind: str, name: str, spec: Obj, version: str = "fathom.dev/v1alpha1") -> Obj:
        return self.request(
            "POST", path, {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        )

    def ready_nodes(self) -> int:
        return sum(has_condition(node, "Ready") for node in self.request("GET", "/api/v1/nodes")["items"])

    def pods(self, namespace: str, app: str) -> list[Obj]:
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}"
        pods: list[Obj] = self.request("GET", path)["items"]
        return pods


def through(kubeconfig: Path, port: int, file: Path) -> Path:
    """The kubeconfig, with the proxy as its server."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    file.write_text(yaml.safe_dump(config))
    file.chmod(0o600)
    return file


def has_condition(obj: Obj, condition: str) -> bool:
    conditions = obj.get("status", {}).get("conditions", ())
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def until(check: Callable[[], Any], what: str, logs: Callable[[], str], within_s: float = PATIENCE_S) -> Any:
    deadline_s = time.monotonic() + within_s
    while not (result := check()):
        if time.monotonic() > deadline_s:
            raise WrongAnswer(f"after {within_s:g} s it is still not so: {what}\n{logs()}")
        time.sleep(0.2)
    return result


def expect(holds: object, what: str, shown: object) -> None:
    if not holds:
        raise WrongAnswer(f"expected: {what}\ngot: {shown}")


# The user.


@dataclass(frozen=True)
class Answer:
    code: int
    out: str

    @property
    def document(self) -> Obj:
        document: Obj = json.loads(self.out)
        return document


class User:
    """May view one namespace and nothing else; works in a directory without any data of the cluster."""

    def __init__(self, cluster: Cluster, name: str, namespace: str, directory: Path) -> None:
        self._directory, self._namespace = directory, namespace
        directory.mkdir()
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        cluster.request("POST", accounts, {"metadata": {"name": name}})
        cluster.request(
            "POST",
            f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            },
        )
        path = f"{accounts}/{name}/token"
        token = cluster.request("POST", path, {"spec": {}})["status"]["token"]
        config = yaml.safe_load((cluster.data / "kubeconfig").read_text())
        config["users"][0]["user"] = {"token": token}
        self._kubeconfig = directory / "kubeconfig"
        self._kubeconfig.write_text(yaml.safe_dump(config))
        self._kubeconfig.chmod(0o600)

    def fathom(self, *words: str) -> Answer:
        command = [sys.executable, "-m", "fathom.cli", *words]
        options = ["-n", self._namespace, "--kubeconfig", str(self._kubeconfig)]
        environment = {**os.environ, "HOME": str(self._directory), "NO_COLOR": "1", "COLUMNS": "160"}
        environment.pop("KUBECONFIG", None)
        done = subprocess.run(
            [*command, *options],
            cwd=self._directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode not in (0, 1):
            raise WrongAnswer(f"fathom {' '.join(words)} exits with {done.returncode}: {done.stderr}")
        return Answer(done.returncode, done.stdout)
