"""What scheduler_perf schedules, in its shapes: nodes of 4 CPU, 32 GiB, 110 pods; pods of 100m and 500Mi.

Each workload says what its nodes look like, which pods come first, and which are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fathom.model.well_known import HOSTNAME_LABEL, ZONE_LABEL

Obj = dict[str, Any]
PAUSE = "registry.k8s.io/pause:3.10"


class Workload(msgspec.Struct, frozen=True):
    node: Callable[[int], Obj]
    init_pod: Callable[[int], Obj]
    pod: Callable[[int], Obj]
    extra: tuple[Obj, ...] = ()  # Cluster-scoped objects that come first: priority classes.
    stuck: int = 0  # Pods that no node takes, made before the measured ones.
    churns: bool = False  # Others come and go meanwhile.
    sizes: tuple[int, int] = (1000, 10_000)  # First and measured pods: scheduler_perf's, at 5,000 nodes.
    per_node: int = 40  # So many of the measured pods fit on one.
    displaces: bool = False  # The measured pods push the first ones out.

    def most_pods(self, nodes: int, init_pods: int) -> int:
        """How many can be measured: more would wait for ever."""
        return max(0, nodes * self.per_node - (0 if self.displaces else init_pods))


def node(number: int, labels: dict[str, str] | None = None) -> Obj:
    name = f"node-{number:05d}"
    capacity = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME_LABEL: name, **(labels or {})}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
            "phase": "Running",
        },
    }


def zoned(count: int) -> Callable[[int], Obj]:
    return lambda number: node(number, {ZONE_LABEL: f"zone-{1 + number % count}"})


def pod(
    name: str, *, cpu: str = "100m", memory: str = "500Mi", labels: dict[str, str] | None = None, **spec: Any
) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": {
            "containers": [
                {
                    "name": "pause",
                    "image": PAUSE,
                    "ports": [{"containerPort": 80}],
                    "resources": {
                        "requests": {"cpu": cpu, "memory": memory},
                        "limits": {"cpu": cpu, "memory": memory},
                    },
                }
            ],
            "terminationGracePeriodSeconds": 0,  # Nobody is there to end them.
            **spec,
        },
    }


def plain(prefix: str) -> Callable[[int], Obj]:
    return lambda number: pod(f"{prefix}-{number:06d}")


def _spread(number: int) -> Obj:
    selector = {"matchLabels": {"color": "blue"}}
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    return pod(f"spread-{number:06d}", labels={"color": "blue"}, topologySpreadConstraints=[constraint])


def _anti(prefix: str) -> Callable[[int], Obj]:
    term = {"labelSelector": {"matchLabels": {"color": "green"}}, "topologyKey": HOSTNAME_LABEL}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return lambda number: pod(f"{prefix}-{number:06d}", labels={"color": "green"}, affinity=affinity)


def _near(number: int) -> Obj:
    expression = {"key": ZONE_LABEL, "operator": "In", "values": ["zone-1", "zone-2"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return pod(f"near-{number:06d}", affinity=affinity)


def _class(name: str, value: int) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


WORKLOADS: dict[str, Workload] = {
    "basic": Workload(node, plain("init"), plain("pod")),
    "spread": Workload(zoned(3), plain("init"), _spread, sizes=(5000, 5000)),
    "antiaffinity": Workload(node, _anti("init"), _anti("pod"), sizes=(1000, 2000), per_node=1),
    "affinity": Workload(zoned(1), plain("init"), _near, sizes=(5000, 1000)),
    "preemption": Workload(
        node,
        lambda number: pod(f"low-{number:06d}", cpu="900m", priorityClassName="bench-low"),
        lambda number: pod(f"high-{number:06d}", cpu="3", priorityClassName="bench-high"),
        extra=(_class("bench-low", 1), _class("bench-high", 1000)),
        sizes=(20_000, 5000),
        per_node=1,
        displaces=True,
    ),
    "unschedulable": Workload(node, plain("init"), plain("pod"), stuck=200, sizes=(200, 10_000)),
    "churn": Workload(node, plain("init"), plain("pod"), churns=True),
}


def stuck_pod(number: int) -> Obj:
    return pod(f"stuck-{number:06d}", cpu="9")
