"""Completes a pod's own resources (`spec.resources`) from its containers'.

As in kube-apiserver: once a pod sets any, its missing requests are the sum of its containers' requests, else
its limits; and where every container has a limit, so has the pod."""

from __future__ import annotations

from fathom.model.objects import Obj
from fathom.model.podresources import LIMITS, REQUESTS, Amounts, amounts, container_amounts, pod_amounts

SHARED = ("cpu", "memory")  # The pod-level resources that containers can share.


def with_pod_level(spec: Obj) -> Obj:
    """The completed spec; the argument itself where there is nothing to complete."""
    resources = spec.get("resources") or {}
    own_requests, own_limits = amounts(resources.get(REQUESTS)), amounts(resources.get(LIMITS))
    if not own_requests and not own_limits:
        return spec
    requests = {**own_limits, **_container_sum(spec, REQUESTS), **own_requests}
    limits = {**_limits(spec, requests), **own_limits}
    completed = {**resources, REQUESTS: _as_texts(requests)}
    if limits:
        completed[LIMITS] = _as_texts(limits)
    return {**spec, "resources": completed}


def _container_sum(spec: Obj, side: str) -> Amounts:
    containers = {field: spec.get(field) or [] for field in ("containers", "initContainers")}
    return {
        name: amount for name, amount in pod_amounts({"spec": containers}, side).items() if name in SHARED
    }


def _limits(spec: Obj, requests: Amounts) -> Amounts:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    container_limits = [container_amounts(container, LIMITS) for container in containers]
    return {
        name: max(amount, requests[name])
        for name, amount in _container_sum(spec, LIMITS).items()
        if name in requests and all(name in limits for limits in container_limits)
    }


def _as_texts(resources: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in resources.items()}
