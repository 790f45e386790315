"""A pod's shape: everything about a pod that any rule reads, and nothing else. Pods of one shape fit the same
nodes with the same scores, so they share one pass; a shape is hashable and its hash is computed once."""

from __future__ import annotations

import msgspec

from fathom.model.selectors import LabelSelector, Requirement

Pairs = tuple[tuple[str, str], ...]
Needs = tuple[tuple[str, int], ...]

# Resources with a column in every table. CPU counts in thousandths, everything else in ones.
CPU, MEMORY, PODS, EPHEMERAL = "cpu", "memory", "pods", "ephemeral-storage"

# What a container without requests counts as when nodes are scored (kube-scheduler's numbers).
UNASKED_CPU_MILLI, UNASKED_MEMORY = 100, 200 * 1024 * 1024

ANY_ADDRESS = "0.0.0.0"


class Taint(msgspec.Struct, frozen=True, cache_hash=True):
    key: str
    value: str
    effect: str


class Toleration(msgspec.Struct, frozen=True, cache_hash=True):
    key: str = ""  # Empty: every key.
    exists: bool = False  # Else the value must be equal.
    value: str = ""
    effect: str = ""  # Empty: every effect.

    def tolerates(self, taint: Taint) -> bool:
        if self.effect not in {"", taint.effect} or self.key not in {"", taint.key}:
            return False
        return self.exists or (bool(self.key) and self.value == taint.value)


class NodeTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """All requirements must match. A term without any matches no node."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()  # metadata.name is the only field there is.


class Preferred(msgspec.Struct, frozen=True, cache_hash=True):
    weight: int
    term: NodeTerm


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """An affinity or anti-affinity term: which pods, within one value of which node label."""

    topology_key: str
    selector: LabelSelector
    namespaces: tuple[str, ...]  # Sorted; the pod's own if the term names and selects none.
    namespace_selector: LabelSelector | None = None


class Weighted(msgspec.Struct, frozen=True, cache_hash=True):
    weight: int  # Negative: anti-affinity.
    term: AffinityTerm


class Spread(msgspec.Struct, frozen=True, cache_hash=True):
    topology_key: str
    max_skew: int
    hard: bool  # DoNotSchedule
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


class HostPort(msgspec.Struct, frozen=True, cache_hash=True):
    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS


class PodShape(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    namespace: str
    tenant: str = ""
    labels: Pairs = ()  # Sorted.
    priority: int = 0
    preempts: bool = True
    owner: str = ""  # 'ReplicaSet/web-7f2': its controller.
    workloads: tuple[str, ...] = ()  # Names by which an override or a scope may name its workload.
    capacity_class: str = ""  # The reserved pool that it asks to draw on.
    requests: Needs = ((PODS, 1),)  # By name; zero amounts are left out.
    scored_cpu_milli: int = UNASKED_CPU_MILLI
    scored_memory: int = UNASKED_MEMORY
    node_name: str = ""  # Of an unbound pod: the only node that it may use (DaemonSets, by hand).
    node_selector: Pairs = ()
    node_terms: tuple[NodeTerm, ...] | None = None  # One of them must match; None: no requirement.
    preferred_nodes: tuple[Preferred, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_pods: tuple[Weighted, ...] = ()
    spreads: tuple[Spread, ...] = ()
    images: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()  # PersistentVolumeClaims, of its namespace.
    devices: tuple[str, ...] = ()  # Claims to devices (spec.resourceClaims), which nobody here allocates.
    gates: tuple[str, ...] = ()

    def amount(self, resource: str) -> int:
        for name, amount in self.requests:
            if name == resource:
                return amount
        return 0

    def tolerates(self, taint: Taint) -> bool:
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    @property
    def best_effort(self) -> bool:
        """Requests neither CPU nor memory."""
        return not self.amount(CPU) and not self.amount(MEMORY)
