"""Nodes: no eviction on weak evidence, and no pods left ready on nodes that are unreachable."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.model.conditions import conditions_of, find_condition, is_true
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.resource_names import LEASES
from fathom.model.well_known import ACTOR_HEADER
from fathom.sim.checkers.at_rest import AtRest, Objects, of_resource
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

NODE_LEASES = "kube-node-lease"
# NoExecute taints, and for how long the store must not have seen the node's lease renewed. The controller
# learns of a renewal later than the store, never sooner. Lost needs another source of evidence besides.
DRIVEN = {"node.kubernetes.io/unreachable": 40.0, "fathom.dev/lost": 75.0}
UNREACHABLE = "node.kubernetes.io/unreachable"
# The controller checks unhealthy nodes every few seconds; a new leader checks all of them.
UNHEARD_S = 30.0
# A lease's time, less what a report of the state before may have been late.
TIME_TO_COME_BACK_S = 20.0


class NoEvictionOnWeakEvidence(Checker):
    """A node gets one of these NoExecute taints only when the store has not seen its lease renewed for that
    taint's time, whatever any clock says; one late heartbeat is not enough. An operator's
    `fathom.dev/declare-lost` is."""

    name = "no eviction on weak evidence"

    def __init__(self) -> None:
        self._renewed_s: dict[str, float] = {}

    def commit(self, change: Seen) -> Found:
        if change.resource == LEASES and change.key.namespace == NODE_LEASES:
            if _renewal(change.new) != _renewal(change.old):
                self._renewed_s[change.key.name] = change.at_s
            return None
        if change.resource != "nodes" or change.new is None or _is_declared_lost(change.new):
            return None
        # A node that never had a lease is silent since its creation.
        silent_s = change.at_s - self._renewed_s.setdefault(change.key.name, change.at_s)
        new = _evicting_taints(change.new) - _evicting_taints(change.old or {})
        if soon := [taint for taint in sorted(new) if silent_s < DRIVEN[taint]]:
            return f"the node got {', '.join(soon)} only {silent_s:.1f} s after its last heartbeat"
        return None


class ManySilentNodesGetTime(Checker):
    """While many nodes are silent, their silence is held to be somebody else's fault. When they are few
    again, each gets the time of a lease to come back too, before its pods are taken out of service."""

    name = "one of many silent nodes gets the time to come back"
    resources = frozenset({"nodes"})

    def __init__(self) -> None:
        self._held_s: dict[str, float] = {}  # Node -> when it was said to be one of many, last.

    def commit(self, change: Seen) -> Found:
        name = change.key.name
        if change.new is None or _is_declared_lost(change.new):
            self._held_s.pop(name, None)
            return None
        if change.old is not None and _is_one_of_many(change.old):
            self._held_s[name] = change.at_s
        if not _evicting_taints(change.new) - _evicting_taints(change.old or {}):
            return None
        since_s = change.at_s - self._held_s.get(name, -TIME_TO_COME_BACK_S)
        if since_s < TIME_TO_COME_BACK_S:
            return f"the node was one of many silent ones, and {since_s:.0f} s later it is given up"
        return None


def _is_one_of_many(node: Obj) -> bool:
    held = find_condition(conditions_of(node), "fathom.dev/Held") or {}
    return held.get("status") == "True" and held.get("reason") == "ManySilent"


def _renewal(lease: Obj | None) -> object:
    return lookup(lease, "spec", "renewTime") if lease is not None else None


def _evicting_taints(node: Obj) -> set[str]:
    taints = lookup(node, "spec", "taints") or ()
    return {str(taint["key"]) for taint in taints if taint.get("effect") == "NoExecute"} & DRIVEN.keys()


def _is_declared_lost(node: Obj) -> bool:
    return "fathom.dev/declare-lost" in (metadata(node).get("annotations") or {})


class UnheardServeNobody(Checker):
    """Pods of a node that has long been unreachable are not marked ready. For scenarios in which nothing but
    nodes fails: the controller that marks them must be running."""

    name = "no pod is ready on an unreachable node"
    resources = frozenset({"pods", "nodes", LEASES})

    def __init__(self) -> None:
        self._unheard_s: dict[str, float] = {}  # Node -> since when it is unreachable.
        self._ready: dict[str, tuple[str, float]] = {}  # Pod -> its node, and since when it is ready.

    def commit(self, change: Seen) -> Found:
        if change.resource == "nodes":
            _since(self._unheard_s, change.key.name, bool(_evicting_taints(change.new or {})), change.at_s)
        elif change.resource == "pods":
            self._follow(change)
        for path, (node, ready_s) in self._ready.items():
            # The agent of a node that comes back marks its pods ready before the node loses its taint.
            since_s = max(self._unheard_s.get(node, change.at_s), ready_s)
            if change.at_s - since_s > UNHEARD_S:
                return Finding(
                    f"{node} is unreachable since second {since_s:.0f}, but {path} is ready", (path,)
                )
        return None

    def _follow(self, change: Seen) -> None:
        pod = change.new or {}
        runs = lookup(pod, "status", "phase") == "Running" and is_true(pod, "Ready")
        if not runs:
            self._ready.pop(change.path, None)
        elif change.path not in self._ready:
            self._ready[change.path] = (str(lookup(pod, "spec", "nodeName")), change.at_s)


def _since(times: dict[str, float], name: str, so: bool, at_s: float) -> None:
    if so:
        times.setdefault(name, at_s)
    else:
        times.pop(name, None)


class SparedNodesServe(Checker):
    """A node that says that its pods are spared, because another path sees it alive, keeps them: none is
    evicted by a taint, and none is called not ready by the controllers."""

    name = "pods of a node that is seen alive stay in service"
    resources = frozenset({"pods", "nodes"})

    def __init__(self) -> None:
        self._spared: set[str] = set()  # Nodes.

    def commit(self, change: Seen) -> Found:
        if change.resource == "nodes":
            spared = change.new is not None and _is_spared(change.new)
            (self._spared.add if spared else self._spared.discard)(change.key.name)
            return None
        node = str(lookup(change.new, "spec", "nodeName") or "")
        ours = dict(change.headers).get(ACTOR_HEADER) == "controllers/nodes" and not change.late
        if not ours or node not in self._spared or change.old is None or change.new is None:
            return None
        if not is_true(change.old, "Ready") or is_true(change.new, "Ready"):
            return None
        return f"{change.by} took {change.key.name} out of service, though {node} is seen alive"


def _is_spared(node: Obj) -> bool:
    held = find_condition(conditions_of(node), "fathom.dev/Held") or {}
    return held.get("status") == "True" and held.get("reason") == "Spared"


class OnlyAHeartbeatHeals(Checker):
    """A node that was called unreachable is called healthy again only after it was heard. For scenarios in
    which watches are not held up: a controller may learn of a heartbeat late."""

    name = "only a heartbeat heals a node"
    resources = frozenset({"nodes", LEASES})

    def __init__(self) -> None:
        self._renewed_s: dict[str, float] = {}

    def commit(self, change: Seen) -> Found:
        if change.resource == LEASES:
            if change.key.namespace == NODE_LEASES and _renewal(change.new) != _renewal(change.old):
                self._renewed_s[change.key.name] = change.at_s
            return None
        if change.old is None or change.new is None or change.by == change.key.name:
            return None
        silent_s = change.at_s - self._renewed_s.get(change.key.name, 0.0)
        healed = UNREACHABLE in _keys(change.old) and UNREACHABLE not in _keys(change.new)
        if not healed or silent_s < UNHEARD_S:
            return None
        return f"{change.by} removed the taint {UNREACHABLE}, though the node is silent for {silent_s:.0f} s"


def _keys(node: Obj) -> set[str]:
    return {str(taint.get("key")) for taint in lookup(node, "spec", "taints") or ()}


class EveryWorkloadIsServed(AtRest):
    """At rest: every Deployment has as many ready pods as it wants, each on a reachable node."""

    name = "every workload has its replicas"
    patience_s = 400.0  # A node may first have to become Lost, and a rollout's deadline to pass.

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        nodes = of_resource(objects, "nodes")
        ready_nodes = {key_of(node).name for node in nodes if is_true(node, "Ready")}
        for deployment in of_resource(objects, "deployments.apps"):
            key, wanted = key_of(deployment), int(lookup(deployment, "spec", "replicas") or 0)
            pods = [
                pod
                for pod in of_resource(objects, "pods")
                if key_of(pod).namespace == key.namespace
                and (metadata(pod).get("labels") or {}).get("app") == key.name
                and not is_deleting(pod)
                and is_true(pod, "Ready")
                and lookup(pod, "spec", "nodeName") in ready_nodes
            ]
            if len(pods) != wanted:
                path = f"deployments.apps/{key.namespace}/{key.name}"
                yield Finding(
                    f"{key.name} wants {wanted} pods, but {len(pods)} are ready on reachable nodes", (path,)
                )


class OneRunPerPod(Checker):
    """A bound pod never changes its node, and a pod that has ended never runs again."""

    name = "one binding per pod"

    def commit(self, change: Seen) -> Found:
        if change.resource != "pods" or change.old is None or change.new is None:
            return None
        before, after = lookup(change.old, "spec", "nodeName"), lookup(change.new, "spec", "nodeName")
        if before and after != before:
            return f"the pod was bound to {before}, then to {after}"
        ended = lookup(change.old, "status", "phase") in TERMINAL_PHASES
        if ended and lookup(change.new, "status", "phase") in {"Pending", "Running"}:
            return "the pod had ended, but runs again"
        return None
