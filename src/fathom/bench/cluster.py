"""`fathom bench cluster`: what a whole `fathom up` costs, and how fast it is: start, idle, from apply to
ready, from the death of an agent until its pods are replaced. The cluster runs on this machine and is
removed afterwards."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from fathom.bench.child import cpu_s, family, machine_cpu_s, rss_mb
from fathom.bench.errors import BadTarget, BenchFailed
from fathom.bench.kubeconfig import BenchTarget, read_target
from fathom.bench.result import Machine, this_machine

START_S_MAX = 120.0
WAIT_S_MAX = 500.0  # Longer than a killed agent's pods tolerate that: 40 s and 300 s.
EVERY_S = 0.05
KEPT_S = 1.0  # A connection that was not used for longer is not used again: the server may have closed it.
SETTLE_S = 5.0  # After the start, before the idle time counts.
DOOMED = "doomed"  # A node in a process of its own, so that it can die alone.

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"

Obj = dict[str, Any]


class ClusterLoad(msgspec.Struct, frozen=True):
    nodes: int = 3
    driver: str = "process"
    replicas: int = 3
    idle_s: float = 20.0
    lost: bool = True  # Whether to wait for a node to be lost: it takes six minutes, as with Kubernetes.


class ClusterResult(msgspec.Struct, frozen=True, kw_only=True):
    bench: str = "cluster"
    ready_s: float  # From the command to `ready`: all nodes are.
    idle_cores: float  # CPU of all parts while nothing happens, in cores.
    idle_cores_by_part: dict[str, float]
    rss_mb: float
    rss_mb_by_part: dict[str, float]
    apply_to_ready_s: float  # All replicas of a new Deployment.
    lost_node_s: float | None  # From kill -9 of its agent until all replicas are ready elsewhere.
    others_cores: float  # What else kept the machine busy while it was idle.
    parameters: dict[str, int | float | str]
    machine: Machine


def run_cluster(load: ClusterLoad) -> ClusterResult:
    with tempfile.TemporaryDirectory(prefix="fathom-bench-") as scratch, _up(Path(scratch), load) as cluster:
        time.sleep(SETTLE_S)
        idle = _idle(cluster, load.idle_s)
        apply_s = _timed(lambda: cluster.run("bench", load.replicas))
        lost_s = _lose_a_node(cluster, Path(scratch), load) if load.lost else None
        cluster.remove("bench")
    return ClusterResult(
        ready_s=round(cluster.ready_s, 2),
        idle_cores=round(sum(idle.cores.values()), 4),
        idle_cores_by_part={name: round(cores, 4) for name, cores in idle.cores.items()},
        rss_mb=round(sum(idle.rss.values()), 1),
        rss_mb_by_part={name: round(size, 1) for name, size in idle.rss.items()},
        apply_to_ready_s=round(apply_s, 2),
        lost_node_s=None if lost_s is None else round(lost_s, 1),
        others_cores=round(idle.others, 3),
        parameters=msgspec.to_builtins(load),
        machine=this_machine(),
    )


class _Idle(msgspec.Struct, frozen=True):
    cores: dict[str, float]
    rss: dict[str, float]
    others: float


class _Cluster:
    def __init__(self, process: subprocess.Popen[bytes], target: BenchTarget, ready_s: float) -> None:
        self.process = process
        self.ready_s = ready_s
        self._target = target
        self._connection: http.client.HTTPSConnection | None = None
        self._used_s = 0.0

    def parts(self) -> dict[str, int]:
        """Part -> process; `up` is the supervisor."""
        processes = {"up": self.process.pid}
        for pid in family([self.process.pid])[1:]:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                if "serve" in words:
                    processes[words[words.index("serve") + 1]] = pid
        return processes

    def ask(self, method: str, path: str, body: Obj | None = None) -> Obj:
        connection = self._connected()
        try:
            media = "application/merge-patch+json" if method == "PATCH" else "application/json"
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, body=sent, headers={"content-type": media})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise BenchFailed(f"{method} {path}: {error}") from error
        self._used_s = time.perf_counter()
        if answer.status >= 300:
            raise BenchFailed(f"{method} {path} answered {answer.status}: {text[:200]!r}")
        obj: Obj = json.loads(text)
        return obj

    def _connected(self) -> http.client.HTTPSConnection:
        """The connection is kept between requests: a handshake for each would add load."""
        if self._connection is None or time.perf_counter() - self._used_s > KEPT_S:
            target = self._target
            if self._connection is not None:
                self._connection.close()
            self._connection = http.client.HTTPSConnection(
                target.host, target.port, context=target.tls, timeout=30
            )
        return self._connection

    def run(self, app: str, replicas: int) -> None:
        """A Deployment, until all its replicas are ready."""
        self.ask("POST", DEPLOYMENTS, _deployment(app, replicas))
        self.until(lambda: len(self.ready(app)) == replicas, f"{replicas} replicas are ready")

    def remove(self, app: str) -> None:
        self.ask("DELETE", f"{DEPLOYMENTS}/{app}", {"propagationPolicy": "Foreground"})
        self.until(lambda: not self._pods(app, without_doomed=True), "its pods are gone")

    def ready(self, app: str) -> list[str]:
        """The nodes of its pods that are ready."""
        return [str(pod["spec"]["nodeName"]) for pod in self._pods(app) if _is_ready(pod)]

    def _pods(self, app: str, *, without_doomed: bool = False) -> list[Obj]:
        pods: list[Obj] = self.ask("GET", f"{PODS}?labelSelector=app%3D{app}")["items"]
        return [pod for pod in pods if not without_doomed or pod["spec"].get("nodeName") != DOOMED]

    def until(self, check: Callable[[], bool], expected: str) -> None:
        deadline_s = time.perf_counter() + WAIT_S_MAX
        while not check():
            if time.perf_counter() > deadline_s:
                raise BenchFailed(f"timeout after {WAIT_S_MAX:g} s: {expected}")
            time.sleep(EVERY_S)


@contextlib.contextmanager
def _up(scratch: Path, load: ClusterLoad) -> Iterator[_Cluster]:
    data, log = scratch / "data", scratch / "log"
    arguments = [
        "up",
        "--data",
        str(data),
        "--port",
        "0",
        "--nodes",
        str(load.nodes),
        "--driver",
        load.driver,
    ]
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(_fathom(*arguments), stdout=output, stderr=output)
    try:
        while b"ready\n" not in log.read_bytes():
            if process.poll() is not None or time.perf_counter() - began > START_S_MAX:
                raise BadTarget(f"`fathom up` did not become ready: {log.read_text()[-500:]}")
            time.sleep(EVERY_S / 5)
        yield _Cluster(process, read_target(data / "kubeconfig"), time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait()


def _fathom(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fathom.cli", *arguments]


def _idle(cluster: _Cluster, seconds: float) -> _Idle:
    parts = cluster.parts()
    # The supervisor's own share, without its children's.
    before = {name: cpu_s([pid]) for name, pid in parts.items()}
    machine, began = machine_cpu_s(), time.perf_counter()
    time.sleep(seconds)
    took_s = time.perf_counter() - began
    spent = {name: cpu_s([pid]) - before[name] for name, pid in parts.items()}
    spent["up"] -= sum(cpu for name, cpu in spent.items() if name != "up")
    rss = {name: rss_mb([pid]) for name, pid in parts.items()}
    rss["up"] -= sum(size for name, size in rss.items() if name != "up")
    others = (machine_cpu_s() - machine - sum(spent.values())) / took_s
    return _Idle({name: max(0.0, cpu) / took_s for name, cpu in spent.items()}, rss, max(0.0, others))


def _lose_a_node(cluster: _Cluster, scratch: Path, load: ClusterLoad) -> float:
    """One more node gets all replicas of a workload of its own, then its agent is killed."""
    log = (scratch / "doomed.log").open("wb")
    agent = _fathom(
        "serve", "agent", "--node", DOOMED, "--driver", "simulated", "--up", str(scratch / "data")
    )
    process = subprocess.Popen(agent, stdout=log, stderr=log)
    try:
        cluster.until(
            lambda: _is_ready(cluster.ask("GET", "/api/v1/nodes")["items"], DOOMED),
            "the additional node is ready",
        )
        nodes = [node["metadata"]["name"] for node in cluster.ask("GET", "/api/v1/nodes")["items"]]
        other_nodes = [name for name in nodes if name != DOOMED]
        _cordon(cluster, other_nodes, True)
        cluster.run("lost", 2)
        _cordon(cluster, other_nodes, False)
        process.kill()
        began = time.perf_counter()
        cluster.until(lambda: _elsewhere(cluster) == 2, "the lost node's pods are replaced")
        took_s = time.perf_counter() - began
        cluster.remove("lost")
    finally:
        process.kill()
        process.wait()
        log.close()
    return took_s


def _cordon(cluster: _Cluster, nodes: list[str], closed: bool) -> None:
    for name in nodes:
        cluster.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": closed or None}})


def _elsewhere(cluster: _Cluster) -> int:
    return sum(node != DOOMED for node in cluster.ready("lost"))


def _is_ready(obj: Obj | list[Obj], name: str = "") -> bool:
    if isinstance(obj, list):
        return any(node["metadata"]["name"] == name and _is_ready(node) for node in obj)
    conditions = obj.get("status", {}).get("conditions", ())
    deleted_at = obj["metadata"].get("deletionTimestamp")
    return not deleted_at and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _deployment(app: str, replicas: int) -> Obj:
    command = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]
    container = {"name": "main", "image": "bench", "command": command}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 2}
    template = {"metadata": {"labels": {"app": app}}, "spec": spec}
    selector = {"matchLabels": {"app": app}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def as_json(result: ClusterResult) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def as_table(result: ClusterResult) -> str:
    load = result.parameters
    rows = [
        ("start to ready", f"{result.ready_s:>9.2f} s"),
        (
            "idle CPU",
            f"{result.idle_cores * 100:>9.1f} % of a core  ({_each(result.idle_cores_by_part, 100, '%')})",
        ),
        ("memory", f"{result.rss_mb:>9.0f} MB  ({_each(result.rss_mb_by_part, 1, 'MB')})"),
        (f"apply to ready, {load['replicas']} pods", f"{result.apply_to_ready_s:>9.2f} s"),
    ]
    if result.lost_node_s is not None:
        rows.append(("node killed to replaced", f"{result.lost_node_s:>9.1f} s"))
    width = max(len(name) for name, _ in rows)
    title = f"{load['nodes']} nodes ({load['driver']}) on {result.machine.cores} cores"
    busy = f"other programs kept {result.others_cores:.2f} cores busy meanwhile"
    return "\n".join([title, "", *(f"{name:<{width}}  {text}" for name, text in rows), "", busy])


def _each(parts: dict[str, float], factor: float, unit: str) -> str:
    return ", ".join(f"{name} {value * factor:.1f} {unit}" for name, value in parts.items())
