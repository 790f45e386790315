"""Completes a pod's own resources (`spec.resources`) from its containers'.

As in kube-apiserver: once a pod sets any, its missing requests are the sum of its containers' requests, else
its limits; and where every container has a limit, so has the pod."""

from __future__ import annotations

from fathom.model.objects import Obj
from fathom.model.podresources import LIMITS, REQUESTS, Amounts, amounts, container_amounts, pod_amounts

SHARED = ("cpu", "memory")  # The pod-level resources that containers can share.


def with_pod_level(spec: Obj) -> Obj:
    """The completed spec; the argument itself where there is nothing to complete."""
    whole = spec.get("resources") or {}
    asked, most = amounts(whole.get(REQUESTS)), amounts(whole.get(LIMITS))
    if not asked and not most:
        return spec
    requests = {**most, **_together(spec, REQUESTS), **asked}
    limits = {**_limits(spec, requests), **most}
    done = {**whole, REQUESTS: _texts(requests)}
    if limits:
        done[LIMITS] = _texts(limits)
    return {**spec, "resources": done}


def _together(spec: Obj, what: str) -> Amounts:
    alone = {field: spec.get(field) or [] for field in ("containers", "initContainers")}
    return {name: one for name, one in pod_amounts({"spec": alone}, what).items() if name in SHARED}


def _limits(spec: Obj, requests: Amounts) -> Amounts:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    own = [container_amounts(one, LIMITS) for one in containers]
    return {
        name: max(one, requests[name])
        for name, one in _together(spec, LIMITS).items()
        if name in requests and all(name in each for each in own)
    }


def _texts(listed: Amounts) -> dict[str, str]:
    return {name: str(one) for name, one in listed.items()}
