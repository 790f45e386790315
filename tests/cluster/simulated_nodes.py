"""A namespace and two nodes for one trouble, on a cluster whose containers are simulated."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

from live_cluster import Cluster
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Obj, until

ZONES = ("zone-a", "zone-b")
HOST, POOL = "kubernetes.io/hostname", "example.com/pool"
NODE_CPU = 8
AT_ONCE = json.dumps({"image_s": 0, "start_s": 0, "ready_s": 0})
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "kiosk")


class Place:
    """A namespace and two nodes of one trouble, and what is drawn for it."""

    def __init__(
        self, cluster: Cluster, kubectl: Kubectl, nodes: tuple[str, str], rng: random.Random
    ) -> None:
        self.cluster, self.nodes, self.rng = cluster, nodes, rng
        self.word = f"{rng.choice(WORDS)}-{rng.randrange(1000)}"
        self.namespace = f"{self.word}-ns"
        self.kubectl = kubectl.within(self.namespace)
        self.background: list[subprocess.Popen[bytes]] = []
        self.shared = kubectl.within("")
        self.shared.ok(f"create namespace {self.namespace}")
        for node in nodes:
            self.node(node, {"metadata": {"labels": {POOL: self.word}}})

    def node(self, name: str, patch: Obj) -> None:
        self.cluster.patch(f"/api/v1/nodes/{name}", patch)

    def cordon(self, *numbers: int) -> None:
        for number in numbers:
            self.node(self.nodes[number], {"spec": {"unschedulable": True}})

    def taint(self, number: int, key: str = "decoy", value: str = "yes") -> None:
        taints = [{"key": key, "value": value, "effect": "NoSchedule"}]
        self.node(self.nodes[number], {"spec": {"taints": taints}})

    def pod(self, name: str = "web", cpu: Any = "100m", *, on: int | None = None, **fields: Any) -> Obj:
        """On the trouble's nodes; `on`: on one of them. Else fields of its spec."""
        script, labels = fields.pop("script", AT_ONCE), fields.pop("labels", {"app": name})
        container = {
            "name": "main", "image": "app:1", "resources": {"requests": {"cpu": str(cpu)}},
            **fields.pop("of", {}),
        }  # fmt: skip
        selector = {HOST: self.nodes[on]} if on is not None else {POOL: self.word}
        spec = {"nodeSelector": selector, "containers": [container], **fields}
        meta = {"name": name, "labels": labels, "annotations": {"fathom.dev/simulated": script}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def deployment(self, name: str = "web", **fields: Any) -> Obj:
        pod = self.pod(name, **fields)
        meta = {field: value for field, value in pod["metadata"].items() if field != "name"}
        template = {"metadata": meta, "spec": pod["spec"]}
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}

    def create(self, *objs: Obj) -> None:
        self.kubectl.create(*objs)

    def placed(self, *objs: Obj) -> None:
        """They have a node when this returns."""
        self.create(*objs)
        names = [obj["metadata"]["name"] for obj in objs]
        until(lambda: all(self.get(name)["spec"].get("nodeName") for name in names), self.cluster.logs)

    def get(self, pod: str = "web") -> Obj:
        return self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/pods/{pod}")

    def priority_class(self) -> str:
        value, name = self.rng.randrange(10, 1000), f"high-{self.word}"
        meta = {"name": name}
        self.shared.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
        )
        return name
