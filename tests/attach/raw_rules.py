"""Whether bound pods keep the rules of Kubernetes, from the raw objects alone. Imports nothing of fathom.

It judges the end of a run in which pods were only added: then a rule that held at each binding holds at the
end too (spreading: the least filled zone only fills up).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

Obj = dict[str, Any]
UNITS = {"m": 1, "": 1000, "Ki": 1000 << 10, "Mi": 1000 << 20, "Gi": 1000 << 30}


def broken_rules(nodes: Iterable[Obj], pods: Iterable[Obj]) -> list[str]:
    by_name = {node["metadata"]["name"]: node for node in nodes}
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    on_node: dict[str, list[Obj]] = defaultdict(list)
    for pod in bound:
        on_node[pod["spec"]["nodeName"]].append(pod)
    found = [text for name, here in on_node.items() for text in _of_node(by_name[name], here)]
    for pod in bound:
        node = by_name[pod["spec"]["nodeName"]]
        found += [f"{_name(pod)} on {_name(node)}: {text}" for text in _of_pod(pod, node, bound, by_name)]
    return found


def _of_node(node: Obj, here: list[Obj]) -> Iterator[str]:
    """Room, and ports of the host."""
    allocatable = node["status"]["allocatable"]
    for resource in ("cpu", "memory"):
        used = sum(_requested(pod, resource) for pod in here)
        if used > amount(allocatable[resource]):
            yield f"{_name(node)}: {used} thousandths of {resource}, {allocatable[resource]} are there"
    if len(here) > int(allocatable["pods"]):
        yield f"{_name(node)}: {len(here)} pods"
    ports = Counter(port["hostPort"] for pod in here for port in _ports(pod) if "hostPort" in port)
    yield from (
        f"{_name(node)}: port {port} is taken {count} times" for port, count in ports.items() if count > 1
    )


def _of_pod(pod: Obj, node: Obj, bound: list[Obj], nodes: dict[str, Obj]) -> Iterator[str]:
    spec, labels = pod["spec"], node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        yield "its nodeSelector does not match"
    affinity = spec.get("affinity", {})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = affinity.get("nodeAffinity", {}).get(required, {}).get("nodeSelectorTerms")
    if terms and not any(all(_fits(each, labels) for each in term["matchExpressions"]) for term in terms):
        yield "its node affinity does not match"
    for taint in node["spec"].get("taints", ()):
        if taint["effect"] == "NoSchedule" and not any(
            _tolerates(each, taint) for each in spec.get("tolerations", ())
        ):
            yield f"taint {taint['key']} is not tolerated"
    for term in affinity.get("podAntiAffinity", {}).get(required, ()):
        if others := _beside(pod, term, node, bound, nodes):
            yield f"it must not be beside {_name(others[0])}"
    for term in affinity.get("podAffinity", {}).get(required, ()):
        alone = sum(_selected(term["labelSelector"], other) for other in bound) == 1
        if not alone and not _beside(pod, term, node, bound, nodes):
            yield "it is beside none of those that it must be beside"
    for constraint in spec.get("topologySpreadConstraints", ()):
        counts = _spread(pod, constraint, bound, nodes)
        if max(counts.values()) - min(counts.values()) > constraint["maxSkew"]:
            yield f"spread {dict(counts)}, at most {constraint['maxSkew']} apart"


def _beside(pod: Obj, term: Obj, node: Obj, bound: list[Obj], nodes: dict[str, Obj]) -> list[Obj]:
    """Other pods that the term matches, in the same domain."""
    key = term["topologyKey"]
    domain = node["metadata"]["labels"][key]
    return [
        other
        for other in bound
        if other is not pod
        and _selected(term["labelSelector"], other)
        and nodes[other["spec"]["nodeName"]]["metadata"]["labels"][key] == domain
    ]


def _spread(pod: Obj, constraint: Obj, bound: list[Obj], nodes: dict[str, Obj]) -> Counter[str]:
    """How many pods are in each domain whose nodes the pod may use by its selector and affinity."""
    key = constraint["topologyKey"]
    counts: Counter[str] = Counter()
    for node in nodes.values():
        if not list(_of_pod({**pod, "spec": _placing(pod)}, _without_taints(node), [], nodes)):
            counts[node["metadata"]["labels"][key]] += 0
    for other in bound:
        domain = nodes[other["spec"]["nodeName"]]["metadata"]["labels"][key]
        if domain in counts and _selected(constraint["labelSelector"], other):
            counts[domain] += 1
    return counts


def _placing(pod: Obj) -> Obj:
    spec = pod["spec"]
    affinity = {"nodeAffinity": spec.get("affinity", {}).get("nodeAffinity", {})}
    return {"nodeSelector": spec.get("nodeSelector", {}), "affinity": affinity}


def _without_taints(node: Obj) -> Obj:
    return {**node, "spec": {}}


def _selected(selector: Obj, pod: Obj) -> bool:
    labels = pod["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in selector["matchLabels"].items())


def _fits(expression: Obj, labels: Obj) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    same = toleration.get("key") in {None, taint["key"]} and toleration.get("effect") in {
        None,
        taint["effect"],
    }
    return same and (toleration.get("operator") == "Exists" or toleration.get("value") == taint.get("value"))


def _requested(pod: Obj, resource: str) -> int:
    return sum(amount(each["resources"]["requests"].get(resource, "0")) for each in pod["spec"]["containers"])


def _ports(pod: Obj) -> list[Obj]:
    return [port for container in pod["spec"]["containers"] for port in container.get("ports", ())]


def amount(text: str) -> int:
    """In thousandths."""
    digits = text.rstrip("KMGim")
    return int(digits) * UNITS[text[len(digits) :]]


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])
