"""Parses a Pod's JSON into its shape. Lenient: the API server has validated the object; an invalid part (a
selector that cannot be parsed) selects nothing, so that one odd object cannot stop the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fathom.kinds.capacity_class import CAPACITY_CLASS
from fathom.kinds.scheduler_override import workloads_of
from fathom.model.objects import Obj, labels_of, metadata
from fathom.model.podresources import REQUESTS, pod_amounts
from fathom.model.quantity import Quantity
from fathom.model.selectors import (
    EQUALS,
    GREATER,
    IN,
    LESS,
    NODE_OPERATORS,
    NOT_IN,
    NOTHING,
    LabelSelector,
    Requirement,
)
from fathom.schedule.decide.shape import (
    ANY_ADDRESS,
    CPU,
    MEMORY,
    PODS,
    UNASKED_CPU_MILLI,
    UNASKED_MEMORY,
    AffinityTerm,
    HostPort,
    Needs,
    NodeTerm,
    Pairs,
    PodShape,
    Preferred,
    Spread,
    Toleration,
    Weighted,
)

# The ledger's limit: more than any node has, and small enough that sums and scores fit 64 bits.
_COUNT_MAX = 2**53


def shape_of(pod: Obj, *, tenant: str) -> PodShape:
    spec = pod.get("spec") or {}
    affinity = spec.get("affinity") or {}
    labels = labels_of(pod)
    namespace = str(metadata(pod).get("namespace") or "")
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return PodShape(
        namespace=namespace,
        tenant=tenant,
        labels=tuple(sorted(labels.items())),
        priority=int(spec.get("priority") or 0),
        preempts=spec.get("preemptionPolicy") != "Never",
        owner=_owner(pod),
        workloads=workloads_of(pod) if _owner(pod) else (),
        capacity_class=str((metadata(pod).get("annotations") or {}).get(CAPACITY_CLASS) or ""),
        requests=needs_of(pod),
        scored_cpu_milli=_scored(pod, CPU, UNASKED_CPU_MILLI),
        scored_memory=_scored(pod, MEMORY, UNASKED_MEMORY),
        node_selector=_pairs(spec.get("nodeSelector")),
        node_terms=_node_terms(affinity.get("nodeAffinity") or {}),
        preferred_nodes=tuple(_preferred_nodes(affinity.get("nodeAffinity") or {})),
        tolerations=tuple(_toleration(toleration) for toleration in spec.get("tolerations") or ()),
        ports=tuple(_ports(spec)),
        affinity=tuple(_required(affinity.get("podAffinity"), namespace, labels)),
        anti_affinity=tuple(_required(affinity.get("podAntiAffinity"), namespace, labels)),
        preferred_pods=(
            *_weighted(affinity.get("podAffinity"), namespace, labels, sign=1),
            *_weighted(affinity.get("podAntiAffinity"), namespace, labels, sign=-1),
        ),
        spreads=tuple(
            _spread(constraint, labels) for constraint in spec.get("topologySpreadConstraints") or ()
        ),
        images=tuple(image_name(str(container.get("image") or "")) for container in containers),
        claims=tuple(_claims(pod)),
        devices=tuple(str(claim.get("name") or "") for claim in spec.get("resourceClaims") or ()),
        gates=tuple(str(gate.get("name")) for gate in spec.get("schedulingGates") or ()),
    )


def needs_of(pod: Obj) -> Needs:
    """What the pod uses on a node, including one of its pod slots."""
    requested = {name: units(name, amount) for name, amount in pod_amounts(pod, REQUESTS).items()}
    return tuple(sorted((name, amount) for name, amount in {**requested, PODS: 1}.items() if amount))


def units(resource: str, amount: Quantity) -> int:
    """Whole units of a column: thousandths of a CPU, ones of the rest. Larger amounts become the maximum."""
    counted = amount.milli if resource == CPU else amount.value
    return max(-_COUNT_MAX, min(counted, _COUNT_MAX))


def image_name(image: str) -> str:
    """The image name as nodes list it: with a tag."""
    tagged = image.rfind(":") > image.rfind("/")
    return image if tagged or not image else f"{image}:latest"


def node_terms_of(selector: Obj | None) -> tuple[NodeTerm, ...] | None:
    """The terms of a NodeSelector: a pod's required one, or a PersistentVolume's."""
    if selector is None:
        return None
    return tuple(_node_term(term) for term in selector.get("nodeSelectorTerms") or ())


def _owner(pod: Obj) -> str:
    owners = metadata(pod).get("ownerReferences") or ()
    controller = next((owner for owner in owners if owner.get("controller")), None)
    return f"{controller.get('kind')}/{controller.get('name')}" if controller else ""


def _scored(pod: Obj, resource: str, unasked: int) -> int:
    """The amount to score by: kube-scheduler counts a small request for each container without one."""
    spec = pod.get("spec") or {}
    filled = {
        **spec,
        "containers": [
            _with_least(container, resource, unasked) for container in spec.get("containers") or ()
        ],
    }
    amount = pod_amounts({"spec": filled}, REQUESTS).get(resource)
    return units(resource, amount) if amount else 0


def _with_least(container: Obj, resource: str, unasked: int) -> Obj:
    resources = container.get("resources") or {}
    requests = resources.get("requests") or {}
    if resource in requests:
        return container
    least = f"{unasked}m" if resource == CPU else str(unasked)
    return {**container, "resources": {**resources, "requests": {**requests, resource: least}}}


def _pairs(mapping: Obj | None) -> Pairs:
    return tuple(sorted((str(name), str(value)) for name, value in (mapping or {}).items()))


def _node_terms(affinity: Obj) -> tuple[NodeTerm, ...] | None:
    return node_terms_of(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))


def _preferred_nodes(affinity: Obj) -> Iterator[Preferred]:
    for preferred in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        term = _node_term(preferred.get("preference") or {})
        if preferred.get("weight") and (term.labels or term.fields):
            yield Preferred(int(preferred["weight"]), term)


def _node_term(term: Obj) -> NodeTerm:
    return NodeTerm(
        labels=tuple(_requirement(expression) for expression in term.get("matchExpressions") or ()),
        fields=tuple(_requirement(expression) for expression in term.get("matchFields") or ()),
    )


def _requirement(expression: Obj) -> Requirement:
    operator = NODE_OPERATORS.get(str(expression.get("operator")), IN)
    values = tuple(sorted({str(value) for value in expression.get("values") or ()}))
    if operator in {GREATER, LESS} and not (len(values) == 1 and _is_number(values[0])):
        operator, values = IN, ()
    return Requirement(str(expression.get("key") or ""), operator, values)


def _is_number(text: str) -> bool:
    return (
        len(text) <= 20
        and text.removeprefix("-").removeprefix("+").isascii()
        and text.lstrip("+-").isdecimal()
    )


def _toleration(toleration: Obj) -> Toleration:
    return Toleration(
        key=str(toleration.get("key") or ""),
        exists=toleration.get("operator") == "Exists",
        value=str(toleration.get("value") or ""),
        effect=str(toleration.get("effect") or ""),
    )


def _ports(spec: Obj) -> Iterator[HostPort]:
    sidecars = (init for init in spec.get("initContainers") or () if init.get("restartPolicy") == "Always")
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = str(port.get("hostIP") or ANY_ADDRESS)
                address = ANY_ADDRESS if address == "::" else address  # As the ledger counts it.
                protocol = str(port.get("protocol") or "TCP")
                yield HostPort(int(port["hostPort"]), protocol, address)


def _required(affinity: Obj | None, namespace: str, labels: dict[str, str]) -> Iterator[AffinityTerm]:
    for term in (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ():
        yield _term(term, namespace, labels)


def _weighted(
    affinity: Obj | None, namespace: str, labels: dict[str, str], *, sign: int
) -> Iterator[Weighted]:
    for preferred in (affinity or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        term = _term(preferred.get("podAffinityTerm") or {}, namespace, labels)
        yield Weighted(sign * int(preferred.get("weight") or 0), term)


def _term(term: Obj, namespace: str, labels: dict[str, str]) -> AffinityTerm:
    listed = tuple(sorted({str(name) for name in term.get("namespaces") or ()}))
    selected = term.get("namespaceSelector")
    return AffinityTerm(
        topology_key=str(term.get("topologyKey") or ""),
        selector=narrowed(
            selector_of(term.get("labelSelector")),
            labels,
            same=term.get("matchLabelKeys") or (),
            other=term.get("mismatchLabelKeys") or (),
        ),
        namespaces=listed if listed or selected is not None else (namespace,),
        namespace_selector=None if selected is None else selector_of(selected),
    )


def _spread(constraint: Obj, labels: dict[str, str]) -> Spread:
    selector = selector_of(constraint.get("labelSelector"))
    return Spread(
        topology_key=str(constraint.get("topologyKey") or ""),
        max_skew=int(constraint.get("maxSkew") or 1),
        hard=constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
        selector=narrowed(selector, labels, same=constraint.get("matchLabelKeys") or (), other=()),
        min_domains=int(constraint.get("minDomains") or 1),
        honor_affinity=constraint.get("nodeAffinityPolicy", "Honor") != "Ignore",
        honor_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def selector_of(selector: Any) -> LabelSelector:
    try:
        return LabelSelector.from_object(selector)
    except (ValueError, AttributeError, TypeError):
        return NOTHING


def narrowed(
    selector: LabelSelector, labels: dict[str, str], *, same: Iterable[str], other: Iterable[str]
) -> LabelSelector:
    """The selector with the pod's own values of these labels required (or excluded) as well."""
    added = [Requirement(key, EQUALS, (labels[key],)) for key in same if key in labels]
    added += [Requirement(key, NOT_IN, (labels[key],)) for key in other if key in labels]
    if not added or selector.nothing:
        return selector
    return LabelSelector.of(list(dict.fromkeys((*selector.requirements, *added))))


def _claims(pod: Obj) -> Iterator[str]:
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if claim:
            yield str(claim.get("claimName") or "")
        elif volume.get("ephemeral") is not None:
            yield f"{metadata(pod).get('name')}-{volume.get('name')}"
