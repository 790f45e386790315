"""How many replicas the use of a resource asks for. Pure, in whole numbers: every machine rounds alike.

As Kubernetes computes it: pods without a sample, or not ready, are taken for idle when there should be more,
and those without a sample for fully used when there should be fewer, so that what is not known never drives a
decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from fathom.controllers.podstates import is_active, is_ready
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.podresources import REQUESTS, container_amounts
from fathom.model.quantity import NANO_PER_ONE, Quantity, parse

TOLERANCE = Fraction(1, 10)

Sample = Mapping[str, Mapping[str, int]]  # Container -> resource -> nanos of it in use.


class Unknown(msgspec.Struct, frozen=True):
    """No number can be told from this metric."""

    reason: str  # FailedGetResourceMetric, InvalidMetricSourceType
    message: str


class Proposal(msgspec.Struct, frozen=True):
    replicas: int
    metric: Obj  # As the status shows it.
    why: str


class _Pods(msgspec.Struct, frozen=True):
    """By name: nanos in use, of those whose use counts; nanos asked for, of all."""

    used: dict[str, int]
    asked: dict[str, int]
    missing: tuple[str, ...]
    unready: tuple[str, ...]


def propose(
    metric: Obj, pods: Sequence[Obj], samples: Mapping[str, Sample], current: int
) -> Proposal | Unknown:
    """`samples`: fresh ones, by pod."""
    source, container = _source(metric)
    if source is None:
        return Unknown("InvalidMetricSourceType", f"metrics of type {metric.get('type')} are not supported")
    name, wanted = str(source.get("name")), source.get("target") or {}
    by_share = wanted.get("type") == "Utilization" or wanted.get("averageUtilization") is not None
    found = _grouped(pods, samples, name, container, by_share=by_share)
    if isinstance(found, Unknown):
        return found
    goal = _goal(found, wanted, by_share=by_share)
    if goal is None or not found.used:
        what = f"no pod has a fresh sample of {name}" if not found.used else f"there is no target for {name}"
        return Unknown("FailedGetResourceMetric", what)
    replicas = _replicas(found, goal, current)
    return Proposal(replicas, _shown(metric, found, by_share=by_share), _why(name, found, goal, replicas))


def _source(metric: Obj) -> tuple[Obj | None, str]:
    if metric.get("type") == "Resource":
        return metric.get("resource"), ""
    if metric.get("type") == "ContainerResource":
        source = metric.get("containerResource") or {}
        return source or None, str(source.get("container") or "")
    return None, ""


def _grouped(
    pods: Sequence[Obj], samples: Mapping[str, Sample], resource: str, container: str, *, by_share: bool
) -> _Pods | Unknown:
    used, asked, missing, unready = dict[str, int](), dict[str, int](), list[str](), list[str]()
    for pod in pods:
        if not is_active(pod):
            continue
        name = str(metadata(pod)["name"])
        request = _request(pod, resource, container)
        if request is None and by_share:
            where = f"container {container} of Pod {name}" if container else f"a container of Pod {name}"
            return Unknown("FailedGetResourceMetric", f"missing request for {resource} in {where}")
        asked[name] = request or 0
        use = _use(samples.get(name), resource, container)
        if not is_ready(pod):
            unready.append(name)
        elif use is None:
            missing.append(name)
        else:
            used[name] = use
    return _Pods(used, asked, tuple(missing), tuple(unready))


def _request(pod: Obj, resource: str, container: str) -> int | None:
    total = 0
    for one in lookup(pod, "spec", "containers") or ():
        if container and one.get("name") != container:
            continue
        amount = container_amounts(one, REQUESTS).get(resource)
        if amount is None:
            return None
        total += amount.nano
    return total or None


def _use(sample: Sample | None, resource: str, container: str) -> int | None:
    if sample is None:
        return None
    found = [
        use[resource]
        for name, use in sample.items()
        if resource in use and (not container or name == container)
    ]
    return sum(found) if found else None


class _Goal(msgspec.Struct, frozen=True):
    """A share of what is asked for, or so many nanos for each pod."""

    percent: int = 0
    nanos: int = 0

    def of(self, pods: _Pods, names: Sequence[str]) -> Fraction:
        if self.percent:
            return Fraction(sum(pods.asked[name] for name in names) * self.percent, 100)
        return Fraction(self.nanos * len(names))


def _goal(pods: _Pods, wanted: Obj, *, by_share: bool) -> _Goal | None:
    if by_share:
        percent = int(wanted.get("averageUtilization") or 0)
        return _Goal(percent=percent) if percent else None
    value = wanted.get("averageValue")
    return _Goal(nanos=parse(value).nano) if value is not None and parse(value).nano else None


def _replicas(pods: _Pods, goal: _Goal, current: int) -> int:
    ratio = _ratio(pods, goal, pods.used)
    if ratio is None or abs(ratio - 1) <= TOLERANCE:
        return current
    filled = dict(pods.used)
    if ratio < 1:
        filled |= {name: pods.asked[name] or int(goal.of(pods, [name])) for name in pods.missing}
    else:
        filled |= dict.fromkeys((*pods.missing, *pods.unready), 0)
    careful = _ratio(pods, goal, filled)
    if careful is None or abs(careful - 1) <= TOLERANCE or (careful > 1) != (ratio > 1):
        return current
    replicas = -(-(careful * len(filled)).numerator // (careful * len(filled)).denominator)
    # What is not known must not turn a wish for more into fewer, or the other way round.
    return max(replicas, current) if ratio > 1 else min(replicas, current)


def _ratio(pods: _Pods, goal: _Goal, used: Mapping[str, int]) -> Fraction | None:
    whole = goal.of(pods, tuple(used))
    return Fraction(sum(used.values())) / whole if whole else None


def _shown(metric: Obj, pods: _Pods, *, by_share: bool) -> Obj:
    average = sum(pods.used.values()) // len(pods.used)
    current: Obj = {"averageValue": str(Quantity(_to_milli(average)))}
    asked = sum(pods.asked[name] for name in pods.used)
    if by_share and asked:
        current["averageUtilization"] = sum(pods.used.values()) * 100 // asked
    type_ = str(metric["type"])
    field = "resource" if type_ == "Resource" else "containerResource"
    source = metric[field]
    shown: Obj = {"name": source["name"], "current": current}
    if field == "containerResource":
        shown["container"] = source.get("container")
    return {"type": type_, field: shown}


def _to_milli(nanos: int) -> int:
    """Finer than a thousandth nobody reads; and of bytes there are no parts."""
    if nanos >= 1000 * NANO_PER_ONE:
        return nanos // NANO_PER_ONE * NANO_PER_ONE
    return nanos // 1_000_000 * 1_000_000


def _why(name: str, pods: _Pods, goal: _Goal, replicas: int) -> str:
    ratio = _ratio(pods, goal, pods.used) or Fraction(0)
    unknown = len(pods.missing) + len(pods.unready)
    beside = f", {unknown} not ready or without a sample" if unknown else ""
    return f"{name} at {int(ratio * 100)}% of its target over {len(pods.used)} pods{beside}: {replicas}"
