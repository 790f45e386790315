"""Why a Service sends traffic nowhere: its selector, its pods, its ports, its EndpointSlices, the gateway."""

from __future__ import annotations

from difflib import SequenceMatcher

import msgspec

from fathom.controllers.deployment.proportions import wanted_of
from fathom.controllers.endpoints.plan import has_selector, ports_of, selects
from fathom.controllers.pod_states import is_active, is_ready
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.answer import CauseGroup, Change, DetailGroup, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import SubjectTrouble, answered
from fathom.explain.why_of.control_plane import CONTROLLERS, part_trouble, restart
from fathom.explain.why_of.lookups import PODS, ExplainPod, ref, shown_names
from fathom.explain.why_of.pod_causes import causes_of, decisive, explained_pod, grouped
from fathom.explain.why_of.service_levels import GATEWAY, burn_trouble, level_lines, silent_gateway
from fathom.explain.why_of.unreached import (
    GATEWAY_CAUSE,
    other_port,
    serving,
    undeclared_port,
    unreached_pods,
)
from fathom.model.conditions import CONNECTIONS_FAIL, conditions_of, find_condition
from fathom.model.objects import Obj, key_of, labels_of, lookup
from fathom.model.resource_names import DEPLOYMENTS, SLICES
from fathom.model.well_known import SERVICE_NAME_LABEL


def explain_service(evidence: Evidence, service: Obj, explain_pod: ExplainPod | None = None) -> Explanation:
    ready = ready_endpoints(evidence, service)
    pods = _selected(evidence, service)
    trouble = _trouble(evidence, service, pods, ready, explain_pod)
    explanation = answered(
        evidence,
        service,
        trouble,
        stage="services",
        verdict=_verdict(service, trouble, ready),
        controller="endpoint",
        causes=grouped(evidence, causes_of(evidence, pods)),
    )
    if lookup(service, "spec", "type") == "ExternalName":
        return explanation  # No connection of it goes through the gateway.
    level = DetailGroup("error rate and SLO burn", level_lines(evidence, service))
    return msgspec.structs.replace(explanation, details=(*explanation.details, level))


def _verdict(service: Obj, trouble: SubjectTrouble | None, ready: int) -> str:
    if trouble is not None:
        return trouble.verdict
    if lookup(service, "spec", "type") == "ExternalName":
        return f"is a name for {lookup(service, 'spec', 'externalName')}"
    return f"has {ready} ready endpoint{'' if ready == 1 else 's'}"


def ready_endpoints(evidence: Evidence, service: Obj) -> int:
    """In its EndpointSlices. One that lists no port counts for none."""
    namespace, name = key_of(service)
    return sum(
        bool(lookup(endpoint, "conditions", "ready")) and bool(_has_ports(service, endpoint_slice))
        for endpoint_slice in evidence.objects.list(SLICES, namespace)
        if labels_of(endpoint_slice).get(SERVICE_NAME_LABEL) == name
        for endpoint in endpoint_slice.get("endpoints") or ()
    )


def _has_ports(service: Obj, endpoint_slice: Obj) -> bool:
    return bool(endpoint_slice.get("ports")) or not lookup(service, "spec", "ports")


def _selected(evidence: Evidence, service: Obj) -> list[Obj]:
    pods = evidence.objects.list(PODS, key_of(service).namespace)
    return [pod for pod in pods if selects(service, pod) and is_active(pod)]


def _trouble(
    evidence: Evidence, service: Obj, pods: list[Obj], ready: int, explain_pod: ExplainPod | None
) -> SubjectTrouble | None:
    if lookup(service, "spec", "type") == "ExternalName":
        return None
    if not has_selector(service):
        return None if ready else _without_selector(service)
    if not pods:
        return _selects_nothing(evidence, service)
    missing_port = _port_trouble(evidence, service, pods)
    if missing_port is not None:
        return missing_port
    if not any(map(is_ready, pods)) and not lookup(service, "spec", "publishNotReadyAddresses"):
        return _none_ready(evidence, pods, explain_pod)
    if not ready:
        return _not_in_slices(evidence, pods)
    return (
        _without_gateway(evidence, service)
        or _unreached(evidence, service, pods)
        or burn_trouble(evidence, service)
    )


NO_ENDPOINTS = "has no endpoints"
SIMILAR = 0.6  # Two letters swapped in a word of three give 0.67; 'shop' and 'slow' give 0.5.


def _without_selector(service: Obj) -> SubjectTrouble:
    namespace, name = key_of(service)
    change = Change(
        "create EndpointSlices for it, or give it a selector",
        f"kubectl edit service {word(name)} -n {word(namespace)}",
        _owner(service),
    )
    return SubjectTrouble(
        NO_ENDPOINTS, "it has no selector, and no EndpointSlice lists endpoints for it", change
    )


def _owner(service: Obj) -> str:
    return f"the owner of service/{key_of(service).name}"


# The selector.


def _selects_nothing(evidence: Evidence, service: Obj) -> SubjectTrouble:
    selector: dict[str, str] = lookup(service, "spec", "selector") or {}
    shown = ",".join(f"{name}={value}" for name, value in sorted(selector.items()))
    near = _nearest(evidence, service, selector)
    cause = f"no pod has the labels {shown}"
    made_by = _maker(evidence, service, selector)
    if made_by is not None:
        return _maker_without_pods(cause, made_by)
    if near is None:
        command = f"kubectl get pods -n {word(key_of(service).namespace)} --show-labels"
        return SubjectTrouble(
            NO_ENDPOINTS, cause, Change("create pods with these labels", command, _owner(service))
        )
    labels = labels_of(near)
    differing = {label: labels.get(label) for label, value in selector.items() if labels.get(label) != value}
    return SubjectTrouble(
        NO_ENDPOINTS,
        f"{cause}; the nearest is pod {key_of(near).name}, with {_shown(differing)}",
        _corrected(service, differing),
        related=(ref(PODS, near),),
    )


def _maker(evidence: Evidence, service: Obj, selector: dict[str, str]) -> Obj | None:
    """The Deployment whose pods would have these labels."""
    return next(
        (
            deployment
            for deployment in evidence.objects.list(DEPLOYMENTS, key_of(service).namespace)
            if selector.items()
            <= (lookup(deployment, "spec", "template", "metadata", "labels") or {}).items()
        ),
        None,
    )


def _maker_without_pods(cause: str, deployment: Obj) -> SubjectTrouble:
    namespace, name = key_of(deployment)
    owner, related = f"the owner of deployment/{name}", (ref(DEPLOYMENTS, deployment),)
    if wanted_of(deployment) == 0:
        command = f"kubectl scale deployment/{word(name)} -n {word(namespace)} --replicas=1"
        change = Change(f"give Deployment {name} a replica", command, owner)
        cause = f"{cause}: Deployment {name}, whose pods have them, has 0 replicas"
        return SubjectTrouble(NO_ENDPOINTS, cause, change, related=related)
    command = f"fathom why deployment/{word(name)} -n {word(namespace)}"
    change = Change(f"see why Deployment {name} has no pods", command, owner)
    cause = f"{cause}: Deployment {name}, whose pods have them, has none"
    return SubjectTrouble(NO_ENDPOINTS, cause, change, related=related)


def _shown(labels: dict[str, str | None]) -> str:
    return ", ".join(
        f"{name}={value}" if value is not None else f"no label {name}" for name, value in labels.items()
    )


def _nearest(evidence: Evidence, service: Obj, selector: dict[str, str]) -> Obj | None:
    """The pod that shares the most labels with the selector, at least one of them."""
    pods = [pod for pod in evidence.objects.list(PODS, key_of(service).namespace) if is_active(pod)]

    def shared(pod: Obj) -> int:
        labels = labels_of(pod)
        alike = sum(labels.get(name) == value for name, value in selector.items())
        # With a single label in the selector, a pod that has the label with a similar value is near.
        named = any(_alike(labels.get(name), value) for name, value in selector.items())
        return 2 * alike + named

    best = max(pods, key=lambda pod: (shared(pod), key_of(pod).name), default=None)
    return best if best is not None and shared(best) > 0 else None


def _alike(value: str | None, wanted: str) -> bool:
    """'web' and 'web-app', 'frontend' and 'front', 'web' and 'wbe': one begins with the other, or they have
    nearly the same letters."""
    if not value:
        return False
    one_way, other_way = value.lower(), wanted.lower()
    if one_way.startswith(other_way) or other_way.startswith(one_way):
        return True
    return SequenceMatcher(None, one_way, other_way).ratio() >= SIMILAR


def _corrected(service: Obj, differing: dict[str, str | None]) -> Change:
    namespace, name = key_of(service)
    fields = ",".join(
        f'"{label}":{"null" if value is None else chr(34) + value + chr(34)}'
        for label, value in differing.items()
    )
    patch = '{"spec":{"selector":{' + fields + "}}}"
    command = f"kubectl patch service {word(name)} -n {word(namespace)} --type=merge -p {word(patch)}"
    return Change("correct the selector, or the labels of the pods", command, _owner(service))


# Ports.


def _port_trouble(evidence: Evidence, service: Obj, pods: list[Obj]) -> SubjectTrouble | None:
    """A target port by a name that none of the pods has."""
    for port in lookup(service, "spec", "ports") or ():
        wanted = port.get("targetPort")
        if not isinstance(wanted, str) or any(ports_of(_with_port(service, port), pod) for pod in pods):
            continue
        names = sorted({name for pod in pods for name in _port_names(pod)})
        listed = f"they have {', '.join(names)}" if names else "they name no ports"
        cause = f"no container of its {len(pods)} pods has a port named {wanted}; {listed}"
        group = CauseGroup("port", len(pods), shown_names(evidence, pods), cause)
        return SubjectTrouble("has no usable port", cause, other_port(service, port, names, pods), (group,))
    return None


def _with_port(service: Obj, port: Obj) -> Obj:
    return {**service, "spec": {**service["spec"], "ports": [port]}}


def _port_names(pod: Obj) -> list[str]:
    containers = lookup(pod, "spec", "containers") or ()
    ports = [port for container in containers for port in container.get("ports") or ()]
    return [str(port["name"]) for port in ports if port.get("name")]


# Pods that are not ready, or are not reached.


def _none_ready(evidence: Evidence, pods: list[Obj], explain_pod: ExplainPod | None) -> SubjectTrouble:
    causes = causes_of(evidence, pods)
    first = decisive(causes)
    assert first is not None  # Pods that are not ready have a cause.
    pod, cause = first
    explained = explained_pod(evidence, pod, cause, explain_pod)
    return SubjectTrouble(
        "has no ready endpoints",
        f"none of its {len(pods)} pods is ready: {explained.cause}",
        explained.change,
        grouped(evidence, causes),
        _owners_of(pod),
    )


def _owners_of(pod: Obj) -> tuple[ObjectRef, ...]:
    return (ref(PODS, pod),)


def _not_in_slices(evidence: Evidence, pods: list[Obj]) -> SubjectTrouble:
    ready = sum(map(is_ready, pods))
    trouble = part_trouble(evidence, CONTROLLERS)
    why = trouble or "its controller has not written the EndpointSlices yet"
    cause = f"{ready} of its pods are ready, but no EndpointSlice lists them: {why}"
    return SubjectTrouble("has no ready endpoints", cause, restart(trouble, CONTROLLERS))


def _without_gateway(evidence: Evidence, service: Obj) -> SubjectTrouble | None:
    """Only clients of a headless Service connect to its pods by themselves."""
    process = silent_gateway(evidence)
    if not process or lookup(service, "spec", "clusterIP") == "None":
        return None
    cause = f"process {process} does not answer, so nothing connects its address to its pods"
    return SubjectTrouble("is not served", cause, restart(cause, GATEWAY))


def _unreached(evidence: Evidence, service: Obj, pods: list[Obj]) -> SubjectTrouble | None:
    unreached = unreached_pods(pods)
    failing = find_condition(conditions_of(service), CONNECTIONS_FAIL) or {}
    if failing.get("status") != "True" and len(unreached) < sum(map(is_ready, pods)):
        return None
    message = str(failing.get("message") or (serving(unreached[0]).get("message") if unreached else "") or "")
    group = CauseGroup(GATEWAY_CAUSE, len(unreached), shown_names(evidence, unreached), message)
    change = undeclared_port(service, pods) or Change(
        "check that the containers listen on the Service's target port",
        f"kubectl describe service {word(key_of(service).name)} -n {word(key_of(service).namespace)}",
        _owner(service),
    )
    cause = f"the gateway does not reach {len(unreached)} of its pods: {message}"
    return SubjectTrouble("is not served", cause, change, (group,) if unreached else ())
