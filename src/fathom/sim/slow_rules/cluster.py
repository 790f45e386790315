"""Everything there is, as objects, and how it is read."""

from __future__ import annotations

from typing import Any

from fathom.model.objects import Obj
from fathom.model.podresources import REQUESTS, pod_amounts
from fathom.model.quantity import parse
from fathom.model.selectors import LabelSelector
from fathom.schedule.decide.context import Reserved

ZONE, HOSTNAME, REGION = (
    "topology.kubernetes.io/zone",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/region",
)
CONDITIONS = {
    ("Ready", "False"): "not-ready",
    ("Ready", "Unknown"): "unreachable",
    ("MemoryPressure", "True"): "memory-pressure",
}


class Cluster:
    """Everything there is, as objects."""

    def __init__(
        self,
        nodes: list[Obj],
        pods: list[Obj],
        namespaces: dict[str, dict[str, str]],
        classes: tuple[Reserved, ...] = (),
        claims: dict[str, tuple[str, dict[str, int], int]] | None = None,
    ) -> None:
        self.nodes = {one["metadata"]["name"]: one for one in nodes}
        self.pods = [
            one for one in pods if (one.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
        ]
        self.namespaces = namespaces
        self.classes = sorted(classes, key=lambda one: one.name)
        self.claims = claims or {}  # Holder -> node, needs, priority.

    def without(self, gone: list[Obj]) -> Cluster:
        kept = [pod for pod in self.pods if pod not in gone]
        return Cluster(list(self.nodes.values()), kept, self.namespaces, tuple(self.classes), self.claims)

    def on(self, node: str) -> list[Obj]:
        return [one for one in self.pods if one["spec"].get("nodeName") == node]


def labels(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def namespace(pod: Obj) -> str:
    return str(pod["metadata"]["namespace"])


def drawn(pod: Obj) -> str:
    return str((pod["metadata"].get("annotations") or {}).get("fathom.dev/capacity-class") or "")


def amount(name: str, quantity: Any) -> int:
    return parse(quantity).milli if name == "cpu" else parse(quantity).value


def requests(pod: Obj) -> dict[str, int]:
    asked = {name: (q.milli if name == "cpu" else q.value) for name, q in pod_amounts(pod, REQUESTS).items()}
    return {name: value for name, value in {**asked, "pods": 1}.items() if value}


def scored(pod: Obj) -> dict[str, int]:
    """With a little for each container that asks for nothing."""
    found = {}
    for name, least in (("cpu", "100m"), ("memory", str(200 * 1024 * 1024))):
        containers = []
        for one in pod["spec"]["containers"]:
            asked = (one.get("resources") or {}).get("requests") or {}
            containers.append({**one, "resources": {"requests": {name: least, **asked}}})
        total = pod_amounts({"spec": {**pod["spec"], "containers": containers}}, REQUESTS).get(name)
        found[name] = 0 if total is None else (total.milli if name == "cpu" else total.value)
    return found


def allocatable(node: Obj) -> dict[str, int]:
    return {name: amount(name, value) for name, value in node["status"].get("allocatable", {}).items()}


def taints(node: Obj) -> list[tuple[str, str, str]]:
    written = [(t["key"], t.get("value", ""), t["effect"]) for t in node["spec"].get("taints") or ()]
    for one in node["status"].get("conditions") or ():
        name = CONDITIONS.get((one["type"], one["status"]))
        implied = (f"node.kubernetes.io/{name}", "", "NoSchedule")
        if name and implied not in written:
            written.append(implied)
    return written


def tolerated(pod: Obj, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    for one in pod["spec"].get("tolerations") or ():
        if one.get("effect") and one["effect"] != effect:
            continue
        if one.get("key") and one["key"] != key:
            continue
        if one.get("operator") == "Exists":
            return True
        if one.get("key") and one.get("value", "") == value:
            return True
    return False


def term_holds(term: Obj, node: Obj) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    named = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(one, labels(node)) for one in expressions) and all(_holds(one, named) for one in fields)


def _holds(expression: Obj, found: dict[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    has = key in found
    if operator == "In":
        return has and found[key] in values
    if operator == "NotIn":
        return not has or found[key] not in values
    if operator == "Exists":
        return has
    if operator == "DoesNotExist":
        return not has
    try:
        here = int(found[key])
    except (KeyError, ValueError):
        return False
    return here > int(values[0]) if operator == "Gt" else here < int(values[0])


def wants_node(pod: Obj, node: Obj) -> bool:
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels(node).get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(term_holds(one, node) for one in required["nodeSelectorTerms"])


def matches(term: Obj, owner: Obj, pod: Obj, cluster: Cluster) -> bool:
    """Whether `owner`'s affinity term is about `pod`."""
    selector = LabelSelector.from_object(term.get("labelSelector"))
    if selector.nothing or not selector.matches(labels(pod)):
        return False
    for key in term.get("matchLabelKeys") or ():
        if key in labels(owner) and labels(pod).get(key) != labels(owner)[key]:
            return False
    for key in term.get("mismatchLabelKeys") or ():
        if key in labels(owner) and labels(pod).get(key) == labels(owner)[key]:
            return False
    listed, chosen = term.get("namespaces") or [], term.get("namespaceSelector")
    if not listed and chosen is None:
        return namespace(pod) == namespace(owner)
    if namespace(pod) in listed:
        return True
    there = cluster.namespaces.get(namespace(pod), {})
    return chosen is not None and LabelSelector.from_object(chosen).matches(there)


def pod_terms(pod: Obj, which: str) -> list[Obj]:
    affinity = (pod["spec"].get("affinity") or {}).get(which) or {}
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def liked_terms(pod: Obj) -> list[tuple[int, Obj]]:
    affinity = pod["spec"].get("affinity") or {}
    return [
        (sign * one["weight"], one["podAffinityTerm"])
        for which, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
        for one in (affinity.get(which) or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    ]


def same_domain(key: str, one: Obj, other: Obj) -> bool:
    return key in labels(one) and labels(one)[key] == labels(other).get(key)
