"""What pods use in a fork, for autoscalers: the samples of the state that it began with, as load goes on.

The load of a workload stays what it was: when it gets more pods, each has less of it. A pod without a sample
and without siblings that have one uses half of its requests, as simulated containers do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from fathom.agent.process import Agent
from fathom.agent.simulated import SimulatedRuntime
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.sim.fork_state import ContainerSample, PodSample
from fathom.sim.world.world import World

WINDOW_S = 15.0


class CarriedUsage:
    """Answers for the agents of a fork: `Engine.usage_of`."""

    def __init__(self, world: World, samples: Sequence[PodSample]) -> None:
        self._world = world
        by_name = {(sample.namespace, sample.name): sample for sample in samples}
        self._samples: dict[str, PodSample] = {}  # By the pod's UID.
        self._groups: dict[str, list[PodSample]] = defaultdict(list)  # By `_group_of`.
        self._read: tuple[int, dict[str, Obj], dict[str, int]] | None = None  # With the time of reading.
        for pod in world.list("pods"):
            meta = metadata(pod)
            sample = by_name.get((str(meta.get("namespace")), str(meta["name"])))
            if sample is not None:
                self._samples[uid_of(pod)] = sample
                self._groups[_group_of(pod)].append(sample)

    def __call__(self, node: str) -> dict[str, Any]:
        agent = self._world.state(node)
        assert isinstance(agent, Agent)
        assert isinstance(agent.runtime, SimulatedRuntime)
        reported = agent.runtime.usage(node, WINDOW_S)
        by_uid, counts = self._pods_now()
        used: list[dict[str, Any]] = []
        for pod_usage in reported.pods:
            pod = by_uid.get(pod_usage.uid)
            containers = self._containers(pod, counts) if pod is not None else None
            listed = containers if containers is not None else pod_usage.containers
            used.append({"uid": pod_usage.uid, "containers": [_fields(container) for container in listed]})
        every = [container for pod_used in used for container in pod_used["containers"]]
        totals = {name: sum(container[name] for container in every) for name in ("cpu_nano", "memory_bytes")}
        return {
            "node": node, "at_ns": reported.at_ns, "window_ns": reported.window_ns, **totals, "pods": used
        }  # fmt: skip

    def _containers(self, pod: Obj, counts: dict[str, int]) -> list[ContainerSample] | None:
        group = _group_of(pod)
        samples = self._groups.get(group)
        if not samples:
            return None
        share = len(samples) / max(1, counts.get(group, 1))
        own = self._samples.get(uid_of(pod))
        containers = own.containers if own is not None else _mean(samples)
        return [
            ContainerSample(container.name, round(container.cpu_nano * share), container.memory_bytes)
            for container in containers
        ]

    def _pods_now(self) -> tuple[dict[str, Obj], dict[str, int]]:
        """Pods by UID, and how many run of each group. Read once for all nodes that are asked at one time."""
        now_ns = self._world.engine.now_ns
        if self._read is None or self._read[0] != now_ns:
            pods = self._world.list("pods")
            running = Counter(_group_of(pod) for pod in pods if lookup(pod, "status", "phase") == "Running")
            self._read = (now_ns, {uid_of(pod): pod for pod in pods}, dict(running))
        return self._read[1], self._read[2]


def _group_of(pod: Obj) -> str:
    """Pods that share a load: those of one controller, whatever their template's revision."""
    meta = metadata(pod)
    owner = next((owner for owner in meta.get("ownerReferences") or () if owner.get("controller")), None)
    if owner is None:
        return uid_of(pod)
    name = str(owner.get("name"))
    hash_label = (meta.get("labels") or {}).get("pod-template-hash")
    if hash_label:  # A Deployment's ReplicaSets are one group.
        name = name.removesuffix(f"-{hash_label}")
    return f"{meta.get('namespace')}/{owner.get('kind')}/{name}"


def _mean(samples: Sequence[PodSample]) -> list[ContainerSample]:
    by_name: dict[str, list[ContainerSample]] = defaultdict(list)
    for sample in samples:
        for container in sample.containers:
            by_name[container.name].append(container)
    return [
        ContainerSample(
            name,
            sum(container.cpu_nano for container in containers) // len(containers),
            sum(container.memory_bytes for container in containers) // len(containers),
        )
        for name, containers in by_name.items()
    ]


def _fields(container: Any) -> dict[str, Any]:
    names = ("name", "cpu_nano", "memory_bytes")
    return {name: getattr(container, name) for name in names}
