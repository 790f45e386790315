"""Pods are bound only where they may be, by this checker's own reading of taints, selectors and ports."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.model.conditions import BLOCKED_BY_POLICY, is_true
from fathom.model.objects import Obj, is_deleting, key_of, labels_of, lookup
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.sim.checkers.at_rest import AtRest, Objects, of_resource
from fathom.sim.world.invariants import Finding, Found, Seen

# A scheduler may not know of a node's newer labels and taints: the longest that a watch is held back.
KNOWN_S = 90.0
WAITS = ("Queued", "SchedulingRetrying", BLOCKED_BY_POLICY)  # Conditions of a pod that has no node yet.
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class BoundWhereItMayBe(AtRest):
    """The server's guarantees hold at the commit itself: the pod is not being deleted, the node takes pods,
    its ports are free. Rules that only schedulers check (selectors, taints) hold for what they can know by
    then."""

    name = "a pod is bound only where it may run"
    resources = frozenset({"pods", "nodes"})

    def __init__(self) -> None:
        self._nodes: dict[str, Obj] = {}
        self._tainted_s: dict[tuple[str, str], float] = {}  # (node, taint) -> when it was added.
        self._labelled_s: dict[str, float] = {}  # Node -> when its labels last changed.
        self._ports: dict[str, dict[str, str]] = {}  # Node -> port -> the pod that has it.

    def commit(self, change: Seen) -> Found:
        if change.resource == "nodes":
            self._node_changed(change)
            return None
        self._free_ports(change)
        new = change.new
        if new is None:
            return None
        node_name = str(lookup(new, "spec", "nodeName") or "")
        if not node_name:
            return None
        bound = change.old is not None and not lookup(change.old, "spec", "nodeName")
        ended = lookup(new, "status", "phase") in TERMINAL_PHASES
        clash = None if ended else self._take_ports(change, node_name, new)
        return (clash or self._check_binding(change, node_name, new)) if bound else None

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        for pod in of_resource(objects, "pods"):
            conditions = lookup(pod, "status", "conditions") or ()
            statuses = [
                str(condition["status"])
                for condition in conditions
                if condition.get("type") == "PodScheduled"
            ]
            path = "/".join(("pods", *key_of(pod)))
            if lookup(pod, "spec", "nodeName") and "False" in statuses:
                yield Finding(f"{path} has a node, but its PodScheduled condition is False", (path,))
            waits = [name for name in WAITS if is_true(pod, name)]
            if lookup(pod, "spec", "nodeName") and waits:
                yield Finding(f"{path} has a node, but its condition {waits[0]} is True", (path,))

    def _node_changed(self, change: Seen) -> None:
        name, at_s = change.key.name, change.at_s
        if change.new is None:
            self._nodes.pop(name, None)
            return
        if change.old is None or labels_of(change.old) != labels_of(change.new):
            self._labelled_s[name] = at_s if change.old is not None else -KNOWN_S
        self._nodes[name] = change.new
        before = {_taint_text(taint) for taint in _blocking(change.old)} if change.old is not None else set()
        for mark in [_taint_text(taint) for taint in _blocking(change.new)]:
            if mark not in before:
                self._tainted_s[name, mark] = at_s if change.old is not None else -KNOWN_S

    def _free_ports(self, change: Seen) -> None:
        node_name = str(lookup(change.old, "spec", "nodeName") or "")
        for port in _ports(change.old) if node_name and change.old is not None else ():
            if self._ports.get(node_name, {}).get(port) == change.path:
                del self._ports[node_name][port]

    def _take_ports(self, change: Seen, node_name: str, pod: Obj) -> str | None:
        taken = self._ports.setdefault(node_name, {})
        for port in _ports(pod):
            holder = taken.setdefault(port, change.path)
            if holder != change.path:
                return f"{change.path} was bound to {node_name}, where {holder} has port {port}"
        return None

    def _check_binding(self, change: Seen, node_name: str, pod: Obj) -> Found:
        assert change.old is not None
        node = self._nodes.get(node_name)
        if is_deleting(change.old):
            return f"the pod is being deleted, but was bound to {node_name}"
        if lookup(change.old, "status", "phase") in TERMINAL_PHASES:
            return f"the pod has ended, but was bound to {node_name}"
        if lookup(change.old, "spec", "schedulingGates"):
            return f"the pod has scheduling gates, but was bound to {node_name}"
        if node is None or is_deleting(node):
            return (
                f"the pod was bound to {node_name}, which {'is being deleted' if node else 'does not exist'}"
            )
        if lookup(node, "spec", "unschedulable") and not _tolerates(pod, CORDON):
            return f"the pod was bound to {node_name}, which is cordoned"
        return self._check_constraints(change, node_name, node, pod)

    def _check_constraints(self, change: Seen, node_name: str, node: Obj, pod: Obj) -> Found:
        for taint in _blocking(node):
            known = change.at_s - self._tainted_s.get((node_name, _taint_text(taint)), change.at_s) >= KNOWN_S
            if known and not _tolerates(pod, taint):
                return (
                    f"the pod was bound to {node_name}, but does not tolerate its taint {_taint_text(taint)}"
                )
        wanted, labels = lookup(pod, "spec", "nodeSelector") or {}, labels_of(node)
        known = change.at_s - self._labelled_s.get(node_name, change.at_s) >= KNOWN_S
        if known and any(labels.get(name) != value for name, value in wanted.items()):
            return f"the pod was bound to {node_name}, which does not match its nodeSelector {wanted}"
        return None


def _blocking(node: Obj) -> list[Obj]:
    taints = lookup(node, "spec", "taints") or ()
    return [taint for taint in taints if taint.get("effect") in {"NoSchedule", "NoExecute"}]


def _taint_text(taint: Obj) -> str:
    return f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}"


def _tolerates(pod: Obj, taint: Obj) -> bool:
    for toleration in lookup(pod, "spec", "tolerations") or ():
        same = toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (
            taint.get("value") or ""
        )
        named = not toleration.get("key") or toleration["key"] == taint.get("key")
        if same and named and toleration.get("effect") in {None, "", taint.get("effect")}:
            return True
    return False


def _ports(pod: Obj) -> list[str]:
    return [
        f"{port.get('protocol') or 'TCP'}/{port['hostPort']}"
        for container in lookup(pod, "spec", "containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]
