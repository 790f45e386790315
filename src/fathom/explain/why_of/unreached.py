"""Pods that are ready, and that the gateway does not reach: a Service sends them requests in vain."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.endpoints.plan import selects
from fathom.controllers.pod_states import is_active, is_ready
from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import CauseGroup, Change
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import SubjectTrouble
from fathom.explain.why_of.lookups import NODES, PODS, SERVICES, ref, shown_names
from fathom.model.conditions import SERVING_CONDITION, conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup
from fathom.model.well_known import DRIVER_LABEL

GATEWAY_CAUSE = "gateway"


def unreached_pods(pods: Sequence[Obj]) -> list[Obj]:
    return [pod for pod in pods if is_active(pod) and is_ready(pod) and serving(pod).get("status") == "False"]


def serving(pod: Obj) -> Obj:
    return find_condition(conditions_of(pod), SERVING_CONDITION) or {}


def unreached_replicas(evidence: Evidence, owner: Obj, pods: Sequence[Obj]) -> SubjectTrouble | None:
    """Of a workload whose replicas are all ready. A condition that outlived its Service says nothing."""
    services = evidence.objects.list(SERVICES, key_of(owner).namespace)
    ready = [pod for pod in pods if is_active(pod) and is_ready(pod)]
    unreached = [pod for pod in unreached_pods(ready) if not _is_simulated(evidence, pod)]
    service = next((each for each in services if any(selects(each, pod) for pod in unreached)), None)
    if service is None:
        return None
    unreached = [pod for pod in unreached if any(selects(each, pod) for each in services)]
    name, namespace = key_of(service).name, key_of(service).namespace
    none = len(unreached) == len(ready)
    which = "none" if none else f"only {len(ready) - len(unreached)}"
    message = str(serving(unreached[0]).get("message") or "the gateway cannot connect to the pod")
    cause = f"the gateway reaches {which} of its {len(ready)} ready pods for Service {name}: {message}"
    change = undeclared_port(service, unreached) or Change(
        f"check that the containers listen on the target port of Service {name}",
        f"fathom why service/{word(name)} -n {word(namespace)}",
        f"the owner of service/{name}",
    )
    group = CauseGroup(GATEWAY_CAUSE, len(unreached), shown_names(evidence, unreached), message)
    related = (ref(SERVICES, service), ref(PODS, unreached[0]))
    return SubjectTrouble("is not served" if none else "is served in part", cause, change, (group,), related)


def _is_simulated(evidence: Evidence, pod: Obj) -> bool:
    """Nothing listens on the addresses of such pods."""
    node = evidence.objects.get(NODES, Key("", str(lookup(pod, "spec", "nodeName") or "")))
    return labels_of(node or {}).get(DRIVER_LABEL) == "simulated"


def undeclared_port(service: Obj, pods: Sequence[Obj]) -> Change | None:
    """A target port by a number that no container declares, though they declare others."""
    declared = port_numbers(pods)
    for port in lookup(service, "spec", "ports") or ():
        target = port.get("targetPort") or port.get("port")
        if declared and isinstance(target, int) and target not in declared:
            return other_port(service, port, [], pods)
    return None


def other_port(service: Obj, port: Obj, names: list[str], pods: Sequence[Obj]) -> Change:
    namespace, name = key_of(service)
    at = (lookup(service, "spec", "ports") or []).index(port)
    numbers = port_numbers(pods)
    value = f'"{names[0]}"' if names else str(numbers[0] if numbers else port.get("port"))
    patch = f'[{{"op":"add","path":"/spec/ports/{at}/targetPort","value":{value}}}]'
    command = f"kubectl patch service {word(name)} -n {word(namespace)} --type=json -p {word(patch)}"
    what = f"set targetPort to a port that the pods have, such as {value}"
    return Change(what, command, f"the owner of service/{name}")


def port_numbers(pods: Sequence[Obj]) -> list[int]:
    return sorted(
        {
            int(each["containerPort"])
            for pod in pods
            for container in lookup(pod, "spec", "containers") or ()
            for each in container.get("ports") or ()
        }
    )
