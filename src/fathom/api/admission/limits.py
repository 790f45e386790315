"""LimitRanger: applies the namespace's LimitRanges to containers, pods and claims.

Containers without requests or limits get the defaults; then everything is compared with minimum, maximum and
the largest allowed ratio of limit to request. All violations are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Obj, is_deleting, metadata
from fathom.model.podresources import (
    LIMITS,
    REQUESTS,
    Amounts,
    amounts,
    container_amounts,
    pod_amounts,
)
from fathom.model.quantity import NANO_PER_ONE, Quantity
from fathom.model.view import View

LIMIT_RANGES = "limitranges"
CLAIMS = "persistentvolumeclaims"
ANNOTATION = "kubernetes.io/limit-ranger"

_AMOUNTS = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
# A pod with a hundred containers under a LimitRange with a hundred amounts has ten thousand.
COMPARISONS_MAX = 50_000


class LimitRanger(Plugin):
    name = "LimitRanger"
    resources = frozenset({"pods", CLAIMS})
    operations = frozenset({CREATE, UPDATE})
    trusted = True
    reads = (Reads("LimitRange", ("spec",)),)
    writes = (Writes("Pod", ("spec.containers", "spec.initContainers")),)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        obj = attempt.obj
        assert obj is not None
        if attempt.kind.resource == "pods" and attempt.operation == CREATE:
            items = list(_items(view, attempt.namespace, "Container"))
            if items:
                _check_work(attempt, obj, items)
            for item in items:
                obj = with_defaults(obj, item)
        return obj

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        obj = attempt.obj
        if (
            obj is None
            or is_deleting(obj)
            or (attempt.kind.resource == "pods" and attempt.operation != CREATE)
        ):
            return  # The sizes of a pod's containers cannot change any more.
        check = _pod_faults if attempt.kind.resource == "pods" else _claim_faults
        faults = list(dict.fromkeys(check(obj, attempt.namespace, view)))
        if faults:
            raise refused(attempt, faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")


def _check_work(attempt: WriteAttempt, pod: Obj, items: list[Obj]) -> None:
    """Every container is compared with every amount of every LimitRange: the product is the cost."""
    spec = pod.get("spec") or {}
    containers = len(spec.get("containers") or ()) + len(spec.get("initContainers") or ())
    named = sum(len(item.get(field) or ()) for item in items for field in _AMOUNTS)
    if containers * named > COMPARISONS_MAX:
        why = f"{containers} containers and {named} amounts in the LimitRanges of the namespace"
        raise refused(attempt, f"{why} are too many to compare (at most {COMPARISONS_MAX} pairs)")


def _items(view: View, namespace: str, kind: str) -> Iterator[Obj]:
    for seen in view.list(LIMIT_RANGES, namespace):
        for item in (seen.obj.get("spec") or {}).get("limits") or ():
            if item.get("type") == kind:
                yield item


def defaults_of(item: Obj) -> tuple[dict[str, Any], dict[str, Any]]:
    """(requests, limits) that a container gets. The limit falls back to the maximum, the request to the limit
    and then to the minimum."""
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    return requests, limits


def with_defaults(pod: Obj, item: Obj) -> Obj:
    requests, limits = defaults_of(item)
    spec = pod.get("spec") or {}
    changes: list[str] = []
    changed = dict(spec)
    for field, role in (("containers", "container"), ("initContainers", "init container")):
        if spec.get(field):
            changed[field] = [
                _filled(container, requests, limits, role, changes) for container in spec[field]
            ]
    if not changes:
        return pod
    annotations = metadata(pod).get("annotations") or {}
    before = f"{annotations[ANNOTATION]}; " if ANNOTATION in annotations else "LimitRanger plugin set: "
    annotations = {**annotations, ANNOTATION: f"{before}{'; '.join(changes)}"}
    return {**pod, "metadata": {**metadata(pod), "annotations": annotations}, "spec": changed}


def _filled(container: Obj, requests: Obj, limits: Obj, role: str, changes: list[str]) -> Obj:
    resources = dict(container.get("resources") or {})
    for field, defaults, word in ((REQUESTS, requests, "request"), (LIMITS, limits, "limit")):
        present = resources.get(field) or {}
        missing = sorted(name for name in defaults if name not in present)
        if missing:
            resources[field] = {**present, **{name: defaults[name] for name in missing}}
            changes.append(f"{', '.join(missing)} {word} for {role} {container.get('name')}")
    return {**container, "resources": resources} if resources else container


def _pod_faults(pod: Obj, namespace: str, view: View) -> Iterator[str]:
    spec = pod.get("spec") or {}
    for item in _items(view, namespace, "Container"):
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            requests, limits = container_amounts(container, REQUESTS), container_amounts(container, LIMITS)
            yield from _faults(item, requests, limits)
    for item in _items(view, namespace, "Pod"):
        yield from _faults(item, pod_amounts(pod, REQUESTS), pod_amounts(pod, LIMITS))


def _faults(item: Obj, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in sorted(amounts(item.get("min")).items()):
        yield from _below(
            f"minimum {name} usage per {item['type']} is {bound}", name, bound, requests, limits
        )
    for name, bound in sorted(amounts(item.get("max")).items()):
        yield from _above(
            f"maximum {name} usage per {item['type']} is {bound}", name, bound, requests, limits
        )
    for name, bound in sorted(amounts(item.get("maxLimitRequestRatio")).items()):
        message = f"{name} max limit to request ratio per {item['type']} is {bound}"
        yield from _beyond_ratio(message, name, bound, requests, limits)


def _below(message: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    if name not in requests:
        yield f"{message}.  No request is specified"
    elif requests[name] < bound:
        yield f"{message}, but request is {requests[name]}"
    elif name in limits and limits[name] < bound:
        yield f"{message}, but limit is {limits[name]}"


def _above(message: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    if name not in limits:
        yield f"{message}.  No limit is specified"
    elif limits[name] > bound:
        yield f"{message}, but limit is {limits[name]}"
    elif name in requests and requests[name] > bound:
        yield f"{message}, but request is {requests[name]}"


def _beyond_ratio(
    message: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    request, limit = requests.get(name), limits.get(name)
    if not request:
        yield f"{message}, but no request is specified or request is 0"
    elif not limit:
        yield f"{message}, but no limit is specified or limit is 0"
    elif limit.nano * NANO_PER_ONE > bound.nano * request.nano:  # Whole numbers: no rounding decides.
        yield f"{message}, but provided ratio is {limit.nano / request.nano:f}"


def _claim_faults(claim: Obj, namespace: str, view: View) -> Iterator[str]:
    requests = container_amounts(claim.get("spec") or {}, REQUESTS)
    for item in _items(view, namespace, "PersistentVolumeClaim"):
        for name, bound in sorted(amounts(item.get("min")).items()):
            message = f"minimum {name} usage per PersistentVolumeClaim is {bound}"
            yield from _below(message, name, bound, requests, {})
        for name, bound in sorted(amounts(item.get("max")).items()):
            message = f"maximum {name} usage per PersistentVolumeClaim is {bound}"
            if name not in requests:
                yield f"{message}.  No request is specified"
            elif requests[name] > bound:
                yield f"{message}, but request is {requests[name]}"
