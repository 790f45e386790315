"""What is asked of a control plane while its processes are killed, and what must hold at every moment.

CounterWriter   counts a ConfigMap up, on condition of the last value: none that was acknowledged is lost
CounterReader   reads through any server: a value that was acknowledged before it asked is there
PodFollower     watches all pods: none is ever bound twice, and no node is ever given more than it has
Churn           scales Deployments and changes their templates
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from typing import Any

from tests.chaos.topology import NODE_CPU, PausableServer, Topology
from tests.chaos.victim import GONE, MERGE_PATCH

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WATCH_S = 5.0
POD_CPU_M = 500
REPLICAS_MAX, REPLICAS_AT_THE_END_MAX = 40, 20


class Worker(threading.Thread):
    """Works until `over`, or until something is `wrong`."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.wrong = ""

    def run(self) -> None:
        while not self.over.is_set() and not self.wrong:
            self.step()

    def step(self) -> None:
        raise NotImplementedError


class CounterWriter(Worker):
    def __init__(self, topology: Topology, number: int) -> None:
        super().__init__()
        self.path = f"{MAPS}/count-{number}"
        self.acknowledged = -1
        self.latencies_s: list[float] = []
        self.unknown = 0
        self._client = topology.client(number)
        self._revision = ""  # Of the object as it was answered; '': to be read again.

    def step(self) -> None:
        if self._revision:
            self._count_up()
        else:
            self._read()

    def _count_up(self) -> None:
        value = self.acknowledged + 1
        began_s = time.monotonic()
        answer = self._client.call("PUT", self.path, self._object(value, self._revision))
        if answer is None or answer.status >= 500:
            self.unknown += 1
            self._revision = ""
        elif answer.status == 200:
            self.latencies_s.append(time.monotonic() - began_s)
            self.acknowledged, self._revision = value, answer.obj["metadata"]["resourceVersion"]
        elif answer.status == 409:
            self._revision = ""
        elif answer.status != 429:
            self.wrong = f"{self.path}: {answer.status} {answer.obj}"

    def _read(self) -> None:
        answer = self._client.call("GET", self.path)
        if answer is None or answer.status >= 500 or answer.status == 429:
            time.sleep(0.05)
        elif answer.status == 404 and self.acknowledged < 0:
            self._client.call("POST", MAPS, self._object(0))
        elif answer.status == 404 or not self._fits(value := int(answer.obj["data"]["n"])):
            self.wrong = f"{self.path}: {self.acknowledged} was acknowledged, there is {answer.obj}"
        else:
            self.acknowledged, self._revision = value, answer.obj["metadata"]["resourceVersion"]

    def _fits(self, value: int) -> bool:
        """The last one acknowledged, or the next, which nobody answered."""
        return value in {self.acknowledged, self.acknowledged + 1}

    def _object(self, value: int, revision: str = "") -> dict[str, Any]:
        meta = {"name": self.path.rpartition("/")[2], **({"resourceVersion": revision} if revision else {})}
        return {"metadata": meta, "data": {"n": str(value)}}


class CounterReader(Worker):
    def __init__(self, topology: Topology, writers: list[CounterWriter], seed: str) -> None:
        super().__init__()
        self.reads = 0
        self._writers, self._rng = writers, random.Random(seed)
        self._client = topology.client()

    def step(self) -> None:
        writer = self._rng.choice(self._writers)
        before = writer.acknowledged
        answer = self._client.call("GET", writer.path)
        if answer is not None and answer.status == 200:
            self.reads += 1
            if (value := int(answer.obj["data"]["n"])) < before:
                self.wrong = f"{writer.path}: {before} was acknowledged, {value} was read later"
        self._client.move_on()
        time.sleep(0.02)


class PodFollower(Worker):
    def __init__(self, topology: Topology, first: int) -> None:
        super().__init__()
        self.bound: dict[str, str] = {}  # UID -> node, of every pod that ever had one.
        self.lists = 0
        self._servers, self._at = topology.servers, first
        self._revision = ""
        self._on_node: dict[str, dict[str, int]] = defaultdict(dict)  # Node -> UID -> millicores.

    def step(self) -> None:
        server = self._servers[self._at % len(self._servers)]
        try:
            if not self._revision:
                self._list(server)
            with server.client(WATCH_S) as client:
                for event in client.watch(f"{PODS}?resourceVersion={self._revision}"):
                    self._take(event)
                    if self.wrong or self.over.is_set() or not self._revision:
                        return
        except (*GONE, AssertionError, ValueError):
            time.sleep(0.1)
        self._at += 1

    def _list(self, server: PausableServer) -> None:
        with server.client(WATCH_S) as client:
            listed = client.get(PODS)
        if listed.status != 200:
            raise OSError(f"{listed.status}")
        self.lists += 1
        self._on_node.clear()
        for pod in listed.obj["items"]:
            self._see(pod)
        self._revision = listed.obj["metadata"]["resourceVersion"]

    def _take(self, event: Any) -> None:
        pod = event["object"]
        if event["type"] == "ERROR":  # Compacted meanwhile.
            self._revision = ""
            return
        self._revision = pod["metadata"]["resourceVersion"]
        if event["type"] == "DELETED":
            for pods in self._on_node.values():
                pods.pop(pod["metadata"]["uid"], None)
        elif event["type"] != "BOOKMARK":
            self._see(pod)

    def _see(self, pod: Any) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        if not node:
            return
        if self.bound.setdefault(uid, node) != node:
            self.wrong = f"pod {uid} was bound to {self.bound[uid]}, and then to {node}"
        pods = self._on_node[node]
        if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
            pods.pop(uid, None)
        else:
            pods[uid] = POD_CPU_M
        if sum(pods.values()) > NODE_CPU * 1000:
            self.wrong = f"{node} has {sum(pods.values())} millicores of pods: {sorted(pods)}"


class Churn(Worker):
    def __init__(self, topology: Topology, names: list[str], seed: str) -> None:
        super().__init__()
        self.wanted = dict.fromkeys(names, 0)
        self.changes = 0
        self._client, self._rng = topology.client(), random.Random(seed)

    def begin(self) -> None:
        for name in self.wanted:
            self._insist("POST", DEPLOYMENTS, deployment(name))

    def step(self) -> None:
        name = self._rng.choice(sorted(self.wanted))
        if self._rng.random() < 0.3:
            self._patch(name, template(name, self._rng.random()))
        else:
            self.scale(name, self._rng.randint(0, REPLICAS_MAX))
        self.over.wait(self._rng.uniform(0.5, 3.0))

    def settle(self) -> None:
        """To sizes that fit."""
        for name in self.wanted:
            self.scale(name, self._rng.randint(1, REPLICAS_AT_THE_END_MAX))

    def scale(self, name: str, replicas: int) -> None:
        self._patch(name, {"replicas": replicas})
        self.wanted[name] = replicas

    def _patch(self, name: str, spec: Any) -> None:
        self._insist("PATCH", f"{DEPLOYMENTS}/{name}", {"spec": spec}, MERGE_PATCH)
        self.changes += 1

    def _insist(self, method: str, path: str, body: Any, media: str = "application/json") -> None:
        """Until it is there: a second time changes nothing more."""
        while (answer := self._client.call(method, path, body, media=media)) is None or answer.status >= 429:
            time.sleep(0.1)
        if answer.status not in {200, 201, 409}:
            self.wrong = f"{method} {path}: {answer.status} {answer.obj}"

    def unsettled(self) -> list[str]:
        """Deployments that are not as wanted."""
        return [text for name in self.wanted if (text := self._unsettled(name))]

    def _unsettled(self, name: str) -> str:
        answer = self._client.call("GET", f"{DEPLOYMENTS}/{name}")
        pods = self._client.call("GET", f"/api/v1/namespaces/default/pods?labelSelector=app%3D{name}")
        if answer is None or pods is None or answer.status != 200 or pods.status != 200:
            return f"{name}: no answer"
        wanted, obj = self.wanted[name], answer.obj
        status = obj.get("status", {})
        counts = [status.get(f"{word}eplicas", 0) for word in ("r", "updatedR", "readyR", "availableR")]
        seen = status.get("observedGeneration") == obj["metadata"]["generation"]
        if counts != [wanted] * 4 or not seen or len(pods.obj["items"]) != wanted:
            return f"{name}: wanted {wanted}, {counts}, {len(pods.obj['items'])} pods"
        return ""


def template(name: str, value: float) -> Any:
    env = [{"name": "VERSION", "value": str(value)}]
    requests = {"cpu": f"{POD_CPU_M}m"}
    container = {"name": "main", "image": "x", "env": env, "resources": {"requests": requests}}
    return {"template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}


def deployment(name: str) -> Any:
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": name}}, **template(name, 0.0)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
