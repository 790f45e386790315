"""Not serving: the pod is ready, and a Service that selects it does not send it requests."""

from __future__ import annotations

from fathom.explain.why import commands
from fathom.explain.why.answer import Change, Explanation
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PodCase
from fathom.model.conditions import SERVING_CONDITION
from fathom.model.objects import Obj, key_of, labels_of, lookup, uid_of
from fathom.model.resource_names import SLICES
from fathom.model.well_known import DRIVER_LABEL, SERVICE_NAME_LABEL
from fathom.schedule.decide.remedies import OPERATOR

STAGE, VERDICT = "not-serving", "is ready and gets no requests"
SERVICES = "services"


def explain(case: PodCase) -> Explanation | None:
    """None: it serves, or no Service selects it."""
    services = services_of(case)
    if not services:
        return None
    serving = case.condition(SERVING_CONDITION)
    if serving.get("status") == "False":
        return _not_reached(case, serving)
    for service in services if case.evidence.knows(SLICES) else ():
        if not _is_listed(case, service):
            return _not_listed(case, service)
    return None


def services_of(case: PodCase) -> list[Obj]:
    """Services that select the pod, in order of name."""
    labels = labels_of(case.pod)
    return [
        service
        for service in case.evidence.objects.list(SERVICES, case.key.namespace)
        if (selector := lookup(service, "spec", "selector"))
        and all(labels.get(label) == value for label, value in selector.items())
    ]


def _not_reached(case: PodCase, serving: Obj) -> Explanation | None:
    if labels_of(case.node_object or {}).get(DRIVER_LABEL) == "simulated":
        return None  # Nothing listens on the addresses of its pods.
    since = f" since {serving['lastTransitionTime']}" if serving.get("lastTransitionTime") else ""
    ports = sorted(
        {str(port.get("targetPort") or port.get("port")) for service in services_of(case)
         for port in lookup(service, "spec", "ports") or ()}
    )  # fmt: skip
    address = str(lookup(case.pod, "status", "podIP") or "its address")
    change = Change(
        f"make the program listen on {address}, port {' or '.join(ports) or 'of its Service'}",
        commands.kubectl("logs", case.key.name, namespace=case.key.namespace),
        commands.owner_text(case),
    )
    message = serving.get("message") or "the gateway cannot connect to the pod"
    return answer(case, STAGE, VERDICT, f"{message}{since}", change=change)


def _is_listed(case: PodCase, service: Obj) -> bool:
    """Whether a slice of the Service lists the pod as ready."""
    name = key_of(service).name
    return any(
        lookup(endpoint, "targetRef", "uid") == uid_of(case.pod)
        and lookup(endpoint, "conditions", "ready") is not False
        for slice_ in case.evidence.objects.list(SLICES, case.key.namespace)
        if labels_of(slice_).get(SERVICE_NAME_LABEL) == name
        for endpoint in slice_.get("endpoints") or ()
    )


def _not_listed(case: PodCase, service: Obj) -> Explanation:
    name = key_of(service).name
    change = Change(
        "check the endpoints controller", commands.kubectl(
            "get", "endpointslices", "-l", f"{SERVICE_NAME_LABEL}={name}", namespace=case.key.namespace
        ), OPERATOR,
    )  # fmt: skip
    return answer(
        case, STAGE, VERDICT, f"no EndpointSlice of Service {name} lists it as ready", change=change,
        next_trigger=f"the endpoints controller updates the slices of Service {name}",
    )  # fmt: skip
