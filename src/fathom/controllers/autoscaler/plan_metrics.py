"""How many replicas the use of a resource asks for. Pure, in whole numbers: every machine rounds alike.

As Kubernetes computes it: when scaling up, pods without a sample and pods that are starting count as idle;
when scaling down, pods without a sample count as fully used. So unknown use never drives a decision. A share
is in whole percents, a use in whole nanos: rounding errors are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from fathom.controllers.autoscaler.samples import Measure, MissingSamples, PodSample, SortedSamples, sort
from fathom.model.objects import Obj, lookup
from fathom.model.quantity import NANO_PER_ONE, Quantity, parse

TOLERANCE = "0.1"

# Reasons, by type of metric.
FAILED = {
    "Resource": "FailedGetResourceMetric",
    "ContainerResource": "FailedGetContainerResourceMetric",
    "Pods": "FailedGetPodsMetric",
    "Object": "FailedGetObjectMetric",
    "External": "FailedGetExternalMetric",
}


class UnknownUse(msgspec.Struct, frozen=True):
    """This metric gives no number."""

    reason: str  # FailedGetResourceMetric, InvalidMetricSourceType, …
    message: str


class Proposal(msgspec.Struct, frozen=True):
    replicas: int
    metric: Obj  # As the status shows it.
    name: str  # As Events name it.
    why: str


class Tolerance(msgspec.Struct, frozen=True):
    """How far the use may be from its target without scaling."""

    up: Fraction
    down: Fraction

    def covers(self, ratio: Fraction) -> bool:
        return 1 - self.down <= ratio <= 1 + self.up


def tolerance_of(autoscaler: Obj) -> Tolerance:
    def of(field: str) -> Fraction:
        value = lookup(autoscaler, "spec", "behavior", field, "tolerance")
        return Fraction(parse(TOLERANCE if value is None else value).nano, NANO_PER_ONE)

    return Tolerance(of("scaleUp"), of("scaleDown"))


class MeasuredUse(msgspec.Struct, frozen=True):
    """The inputs of one computation."""

    pods: Sequence[Obj]
    samples: Mapping[str, PodSample]  # Fresh ones, by pod.
    current: int
    now_s: float
    tolerance: Tolerance = Tolerance(Fraction(1, 10), Fraction(1, 10))


class _Goal(msgspec.Struct, frozen=True):
    """The target: a share of the requests, or a number of nanos per pod."""

    percent: int = 0
    nanos: int = 0

    def ratio(self, pods: SortedSamples, used: Mapping[str, int]) -> Fraction | None:
        """The ratio of the use to the target."""
        if not self.percent:
            return Fraction(sum(used.values()) // len(used), self.nanos)
        requested = sum(pods.asked[name] for name in used)
        return Fraction(sum(used.values()) * 100 // requested, self.percent) if requested else None

    def full(self, pods: SortedSamples, name: str) -> int:
        """Unknown use, at its worst."""
        return pods.asked[name] * max(100, self.percent) // 100 if self.percent else self.nanos


def propose(metric: Obj, seen: MeasuredUse) -> Proposal | UnknownUse:
    type_ = str(metric.get("type"))
    measure, goal = measure_of(metric), _goal(metric)
    if measure is None:
        problem = f"metrics of type {type_} are not supported"
        return UnknownUse(FAILED.get(type_, "InvalidMetricSourceType"), problem)
    problem = f"failed to get {measure.resource} {'utilization' if measure.by_share else 'usage'}"
    if goal is None:
        return UnknownUse(
            FAILED[type_],
            f"{problem}: neither an average utilization target nor an average value target was set",
        )
    samples = sort(seen.pods, seen.samples, measure, now_s=seen.now_s)
    if isinstance(samples, MissingSamples):
        return UnknownUse(FAILED[type_], f"{problem}: {samples.message}")
    ratio = goal.ratio(samples, samples.used) if samples.used else None
    if ratio is None:
        return UnknownUse(FAILED[type_], f"{problem}: {_nothing_known(samples)}")
    replicas = _replicas(samples, goal, ratio, seen)
    shown = _shown(metric, samples, by_share=measure.by_share)
    return Proposal(replicas, shown, _name(measure), _why(measure.resource, samples, ratio, replicas))


def _source(metric: Obj) -> Obj | None:
    field = {"Resource": "resource", "ContainerResource": "containerResource"}.get(str(metric.get("type")))
    return None if field is None else metric.get(field)


def measure_of(metric: Obj) -> Measure | None:
    """None: not a metric that is measured here."""
    source = _source(metric)
    if source is None:
        return None
    by_share = (source.get("target") or {}).get("averageValue") is None
    return Measure(str(source.get("name")), str(source.get("container") or ""), by_share)


def _goal(metric: Obj) -> _Goal | None:
    wanted = (_source(metric) or {}).get("target") or {}
    if (value := wanted.get("averageValue")) is not None:
        return _Goal(nanos=parse(value).nano) if parse(value).nano > 0 else None
    percent = int(wanted.get("averageUtilization") or 0)
    return _Goal(percent=percent) if percent > 0 else None


def _nothing_known(pods: SortedSamples) -> str:
    if pods.used:
        return "its pods request none of it"
    if not pods.asked:
        return "no pods returned by selector while calculating replica count"
    return "did not receive metrics for targeted pods (pods might be unready)"


def _name(measure: Measure) -> str:
    which = " container" if measure.container else ""
    return f"{measure.resource}{which} resource" + (
        " utilization (percentage of request)" if measure.by_share else ""
    )


def _replicas(pods: SortedSamples, goal: _Goal, ratio: Fraction, seen: MeasuredUse) -> int:
    filled = dict(pods.used)
    if ratio < 1:
        filled |= {name: goal.full(pods, name) for name in pods.missing}
    elif ratio > 1:
        filled |= dict.fromkeys((*pods.missing, *pods.unready), 0)
    careful = goal.ratio(pods, filled)
    if careful is None or seen.tolerance.covers(careful) or (careful > 1) != (ratio > 1):
        return seen.current
    exact = careful * len(filled)
    replicas = -(-exact.numerator // exact.denominator)
    # Unknown use must not turn scaling up into scaling down, or the other way round.
    return max(replicas, seen.current) if ratio > 1 else min(replicas, seen.current)


def _shown(metric: Obj, pods: SortedSamples, *, by_share: bool) -> Obj:
    average = sum(pods.used.values()) // len(pods.used)
    current: Obj = {"averageValue": str(Quantity(_to_milli(average)))}
    requested = sum(pods.asked[name] for name in pods.used)
    if by_share and requested:
        current["averageUtilization"] = sum(pods.used.values()) * 100 // requested
    type_ = str(metric["type"])
    field = "resource" if type_ == "Resource" else "containerResource"
    source = metric[field]
    shown: Obj = {"name": source["name"], "current": current}
    if field == "containerResource":
        shown["container"] = source.get("container")
    return {"type": type_, field: shown}


def _to_milli(nanos: int) -> int:
    """Values finer than a thousandth are not readable; and bytes have no fractions."""
    if nanos >= 1000 * NANO_PER_ONE:
        return nanos // NANO_PER_ONE * NANO_PER_ONE
    return nanos // 1_000_000 * 1_000_000


def _why(resource: str, pods: SortedSamples, ratio: Fraction, replicas: int) -> str:
    unknown = len(pods.missing) + len(pods.unready)
    beside = f", {unknown} not ready or without a sample" if unknown else ""
    use = f"{resource} at {int(ratio * 100)}% of its target over {len(pods.used)} pods{beside}"
    return f"{use}: {replicas} replicas"
