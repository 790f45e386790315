"""Which pods' use of a resource counts for an autoscaler: samples, sorted by the state of their pods. Pure.

As Kubernetes sorts them. The CPU use of a starting pod means nothing: it counts from a sample whose window
began after the pod got ready. A pod that was ready once and is not any more counts: its load may be what
keeps it from answering. For memory every use counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fathom.controllers.pod_states import created_s, is_active, phase_of, seconds
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.podresources import REQUESTS, amounts, container_amounts, pod_amounts

# Kubernetes' --horizontal-pod-autoscaler-cpu-initialization-period, and -initial-readiness-delay.
START_UP_S, FIRST_READY_S = 300.0, 30.0


class PodSample(msgspec.Struct, frozen=True):
    uses: Mapping[str, Mapping[str, int]]  # Container -> resource -> nanos in use.
    since_s: float = float("inf")  # When its window began.


NO_SAMPLE = PodSample({})


class SortedSamples(msgspec.Struct, frozen=True):
    """By pod name: nanos in use, of pods whose use counts; nanos requested, of all."""

    used: dict[str, int]
    asked: dict[str, int]
    missing: tuple[str, ...]  # Without a sample.
    unready: tuple[str, ...]


class MissingSamples(msgspec.Struct, frozen=True):
    """A pod has no request for the resource."""

    message: str


class Measure(msgspec.Struct, frozen=True):
    resource: str
    container: str = ""  # '' is all containers.
    by_share: bool = True  # A share of the request.


def sort(
    pods: Sequence[Obj], samples: Mapping[str, PodSample], measure: Measure, *, now_s: float
) -> SortedSamples | MissingSamples:
    used, requested, missing, unready = dict[str, int](), dict[str, int](), list[str](), list[str]()
    for pod in filter(is_active, pods):
        name = str(metadata(pod)["name"])
        request = request_of(pod, measure)
        if isinstance(request, MissingSamples) and measure.by_share:
            return request
        requested[name] = 0 if isinstance(request, MissingSamples) else request
        sample = samples.get(name, NO_SAMPLE)
        use = use_of(sample, measure)
        if phase_of(pod) == "Pending":
            unready.append(name)
        elif use is None:
            missing.append(name)
        elif measure.resource == "cpu" and _only_starts(pod, sample, now_s):
            unready.append(name)
        else:
            used[name] = use
    return SortedSamples(used, requested, tuple(missing), tuple(unready))


def use_of(sample: PodSample, measure: Measure) -> int | None:
    """Of the whole pod, or of one container. None if it is unknown."""
    uses = [
        use[measure.resource]
        for name, use in sample.uses.items()
        if measure.resource in use and measure.container in ("", name)
    ]
    return sum(uses) if uses else None


def _only_starts(pod: Obj, sample: PodSample, now_s: float) -> bool:
    ready = find_condition(conditions_of(pod), "Ready")
    if ready is None:
        return True
    began_s = seconds(lookup(pod, "status", "startTime")) or created_s(pod)
    changed_s, is_down = seconds(ready.get("lastTransitionTime")), ready.get("status") == "False"
    if began_s + START_UP_S > now_s:
        return is_down or sample.since_s < changed_s
    return is_down and began_s + FIRST_READY_S > changed_s


def request_of(pod: Obj, measure: Measure) -> int | MissingSamples:
    """Nanos: the pod-level request if there is one, else those of its containers and sidecars."""
    spec, name, resource = pod.get("spec") or {}, metadata(pod)["name"], measure.resource
    if not measure.container and amounts((spec.get("resources") or {}).get(REQUESTS)):
        request = pod_amounts(pod, REQUESTS).get(resource)
        return (
            MissingSamples(f"missing pod-level request for {resource} in Pod {name}")
            if request is None
            else request.nano
        )
    sidecars = [
        init_container
        for init_container in spec.get("initContainers") or ()
        if init_container.get("restartPolicy") == "Always"
    ]
    containers = [*(spec.get("containers") or ()), *sidecars]
    wanted = [container for container in containers if measure.container in ("", container.get("name"))]
    if not wanted:
        return MissingSamples(f"container {measure.container} not found in Pod {name}")
    total = 0
    for container in wanted:
        amount = container_amounts(container, REQUESTS).get(resource)
        if amount is None:
            return MissingSamples(
                f"missing request for {resource} in container {container.get('name')} of Pod {name}"
            )
        total += amount.nano
    return total
