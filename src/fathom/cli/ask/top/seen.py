"""What `fathom top` knows of a cluster at one moment: objects as read, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fathom.kube.columns.pods import pod_ready, pod_restarts, pod_status
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.podresources import REQUESTS, pod_amounts
from fathom.model.times import moment_ns

Answer = Mapping[str, Any]

# Kinds that are followed, by the word of messages about them.
PODS, NODES, LEASES, BRAKE = "pods", "nodes", "leases in fathom-system", "configmaps in fathom-system"
OVERRIDES, SIGNALS, PROGRESS = "scheduleroverrides", "componentsignals", "workloadprogresses"
ALL_PODS = "pods of all namespaces"
STUCK, BREAKERS = "what is stuck", "metrics of the control plane"
READING = "reading …"


class PodSeen(msgspec.Struct, frozen=True):
    """What the pages show of a pod. Whole pods of a large cluster would fill the memory."""

    namespace: str
    name: str
    uid: str
    owner: str  # Kind/NAME of its controller; '' without one.
    owner_uid: str
    node: str  # '' before it is bound.
    status: str  # As in `kubectl get pods`.
    ready: str
    restarts: str
    created_ns: int
    cpu_milli: int
    memory_bytes: int
    holds_room: bool  # Whether its requests count on its node.


class NodeLoad(msgspec.Struct, frozen=True):
    """The sum of what pods request on one node."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0


class BreakerSeen(msgspec.Struct, frozen=True):
    """The circuit breaker of a part of the control plane: 'closed', 'open', 'half-open'."""

    component: str
    process: str
    state: str


class LeaseSeen(msgspec.Struct, frozen=True):
    """A lease, and when it was last seen to change, on our own clock: clocks of machines differ."""

    obj: Obj
    changed_ns: int


class ClusterSeen(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str  # '' is all.
    now_ns: int
    server: str = ""
    pods: Mapping[Key, PodSeen] = {}
    loads: Mapping[str, NodeLoad] = {}  # By node.
    nodes: Mapping[Key, Obj] = {}
    leases: Mapping[Key, LeaseSeen] = {}
    brake: Obj | None = None  # The ConfigMap that shows its state.
    overrides: Mapping[Key, Obj] = {}
    signals: Mapping[Key, Obj] = {}
    progress: Mapping[Key, Obj] = {}
    stuck: tuple[Answer, ...] = ()
    breakers: tuple[BreakerSeen, ...] = ()
    notes: Mapping[str, str] = {}  # Of what was not read: why.
    lost_since_ns: int = 0  # Since when the server does not answer; 0: it does.
    lost_why: str = ""


def pod_seen(pod: Obj) -> PodSeen:
    meta, amounts = metadata(pod), pod_amounts(pod, REQUESTS)
    owner: Obj = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), {})
    cpu, memory = amounts.get("cpu"), amounts.get("memory")
    phase = lookup(pod, "status", "phase")
    return PodSeen(
        namespace=str(meta.get("namespace") or ""),
        name=str(meta.get("name") or ""),
        uid=uid_of(pod),
        owner=f"{owner.get('kind')}/{owner.get('name')}" if owner else "",
        owner_uid=str(owner.get("uid") or ""),
        node=str(lookup(pod, "spec", "nodeName") or ""),
        status=pod_status(pod, 0) or ("Terminating" if is_deleting(pod) else "Unknown"),
        ready=pod_ready(pod, 0),
        restarts=pod_restarts(pod, 0).partition(" ")[0],
        created_ns=moment_ns(meta.get("creationTimestamp")) or 0,
        cpu_milli=cpu.milli if cpu else 0,
        memory_bytes=memory.value if memory else 0,
        holds_room=phase not in TERMINAL_PHASES,
    )


def node_loads(pods: Mapping[Key, PodSeen]) -> dict[str, NodeLoad]:
    sums: dict[str, list[int]] = {}
    for pod in pods.values():
        if pod.node and pod.holds_room:
            total = sums.setdefault(pod.node, [0, 0, 0])
            total[0] += pod.cpu_milli
            total[1] += pod.memory_bytes
            total[2] += 1
    return {node: NodeLoad(*total) for node, total in sums.items()}


def lease_seen(before: LeaseSeen | None, lease: Obj, now_ns: int) -> LeaseSeen:
    same = before is not None and before.obj.get("spec") == lease.get("spec")
    return LeaseSeen(lease, before.changed_ns if before is not None and same else now_ns)


def is_in(namespace: str, key: Key) -> bool:
    return not namespace or key.namespace == namespace
