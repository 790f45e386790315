"""Whose use counts, and what is made of what is not known: cases as Kubernetes' own tests have them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from tests.controllers.making import NOW, NOW_S, at, pod
from tests.controllers.test_plan_autoscaling import (
    CPU,
    MILLI,
    asking,
    autoscaler,
    proposed,
    replicas_of,
    said,
    sample,
    scene,
)

from fathom.controllers.autoscaler.plan import AutoscalerFacts, decide
from fathom.controllers.autoscaler.plan_metrics import (
    MeasuredUse,
    Tolerance,
    UnknownUse,
    propose,
    tolerance_of,
)
from fathom.controllers.autoscaler.samples import Measure, MissingSamples, PodSample, request_of, sort
from fathom.model.objects import Obj

SHARE = Measure("cpu")


def sorted_as(one: Obj, found: PodSample | None, measure: Measure = SHARE) -> str:
    result = sort([one], {} if found is None else {"p": found}, measure, now_s=NOW_S)
    assert not isinstance(result, MissingSamples)
    return (
        "used" if result.used else "missing" if result.missing else "unready" if result.unready else "ignored"
    )


def aged(began_s: float, *, ready: bool, since_s: float, **options: Any) -> Obj:
    """It began so long ago, and its readiness last changed so long ago."""
    made = asking("p", ready=ready, ready_for_s=since_s, **options)
    made["status"]["startTime"] = at(-began_s)
    return made


@pytest.mark.parametrize(
    ("one", "taken_s", "expected"),
    [
        (aged(10, ready=True, since_s=5), 0, "used"),
        (aged(10, ready=True, since_s=5), 20, "unready"),  # Its window began before it was ready.
        (aged(10, ready=False, since_s=5), 0, "unready"),
        (aged(1000, ready=True, since_s=5), 20, "used"),
        (aged(1000, ready=False, since_s=5), 0, "used"),  # It was ready before: it may be its load.
        (aged(1000, ready=False, since_s=990), 0, "unready"),  # It never was.
        (aged(1000, ready=True, since_s=5, phase="Pending"), 0, "unready"),
        (aged(1000, ready=True, since_s=5, phase="Failed"), 0, "ignored"),
        (aged(1000, ready=True, since_s=5, going=True), 0, "ignored"),
    ],
)
def test_of_cpu_the_use_of_a_pod_that_only_starts_does_not_count(
    one: Obj, taken_s: float, expected: str
) -> None:
    assert sorted_as(one, sample(1, since_s=NOW_S - taken_s)) == expected


def test_of_memory_every_use_counts() -> None:
    made = aged(10, ready=False, since_s=5)
    found = PodSample({"main": {"memory": 5}}, NOW_S - 60)
    assert sorted_as(made, found, Measure("memory", by_share=False)) == "used"


def test_a_pod_that_is_not_ready_and_has_no_sample_lacks_the_sample() -> None:
    assert sorted_as(aged(10, ready=False, since_s=5), None) == "missing"


def test_what_sidecars_and_the_pod_as_a_whole_ask_for_counts() -> None:
    made = asking("p", milli=100)
    sidecar = {"name": "log", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}
    made["spec"]["initContainers"] = [sidecar, {"name": "once"}]
    assert request_of(made, SHARE) == 150 * MILLI
    assert request_of(made, Measure("cpu", "log")) == 50 * MILLI
    assert request_of(made, Measure("cpu", "no")) == MissingSamples("container no not found in Pod p")
    made["spec"]["resources"] = {"requests": {"cpu": "400m"}}
    assert request_of(made, SHARE) == 400 * MILLI


# What is not known.


def shared(target: int) -> Obj:
    wanted = {"type": "Utilization", "averageUtilization": target}
    return {"type": "Resource", "resource": {"name": "cpu", "target": wanted}}


@pytest.mark.parametrize(
    ("target", "count", "uses", "replicas"),
    [
        (30, 3, (30, 50, 70), 5),
        (30, 3, (80, 95, 100), 10),
        (50, 5, (10, 30, 50, 25, 10), 3),
        (100, 3, (95, 101, 105), 3),  # Within the tolerance.
        (30, 4, (70, 70), 5),  # Idle, as far as anybody knows.
        (100, 4, (10, 10), 3),  # Full, as far as anybody knows.
        (300, 4, (30, 30), 3),  # A target of more than all: then that much.
        (50, 2, (55, 56), 2),  # Whole percents: 55, which is 1.1 of the target.
    ],
)
def test_replicas_from_use_and_from_what_is_not_known(
    target: int, count: int, uses: tuple[int, ...], replicas: int
) -> None:
    assert replicas_of(proposed(shared(target), scene(count, *uses))) == replicas


def test_an_autoscaler_says_itself_what_it_tolerates() -> None:
    behavior = {"scaleUp": {"tolerance": "0.5"}, "scaleDown": {"tolerance": "0"}}
    found = tolerance_of(autoscaler(behavior=behavior))
    assert found == Tolerance(Fraction(1, 2), Fraction(0))
    assert tolerance_of(autoscaler()) == Tolerance(Fraction(1, 10), Fraction(1, 10))
    assert replicas_of(proposed(CPU, scene(2, 75, 75), tolerance=found)) == 2
    assert replicas_of(proposed(CPU, scene(10, *[48] * 10), tolerance=found)) == 10
    assert replicas_of(proposed(CPU, scene(20, *[47] * 20), tolerance=found)) == 19


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ("Pods", "FailedGetPodsMetric"),
        ("Object", "FailedGetObjectMetric"),
        ("External", "FailedGetExternalMetric"),
        ("Moon", "InvalidMetricSourceType"),
    ],
)
def test_a_metric_that_cannot_be_read_has_a_reason_of_its_own(type_: str, reason: str) -> None:
    found = propose({"type": type_}, MeasuredUse((), {}, 2, NOW_S))
    assert isinstance(found, UnknownUse)
    assert found.reason == reason


def test_nothing_is_taken_while_one_of_its_metrics_cannot_be_read_and_that_is_said() -> None:
    other = {"type": "Pods", "pods": {}}
    one = autoscaler(metrics=[CPU, other])
    found = decide(one, scene(4, 10, 10, 10, 10), now=NOW)
    assert (found.replicas, said(found)["ScalingActive"]) == (4, ("False", "FailedGetPodsMetric"))
    grown = decide(one, scene(2, 100, 100), now=NOW)
    assert (grown.replicas, said(grown)["ScalingActive"]) == (4, ("True", "ValidMetricFound"))


def test_without_any_pod_there_is_no_use() -> None:
    found = propose(CPU, MeasuredUse([pod("p", going=True)], {}, 2, NOW_S))
    assert isinstance(found, UnknownUse)
    assert found.message.endswith("no pods returned by selector while calculating replica count")
    assert decide(autoscaler(), AutoscalerFacts(None), now=NOW).replicas == 0
