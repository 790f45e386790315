"""One stored object, read and written as each of the kinds that share it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fathom.kube.definitions import shared
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry

REGISTRY = Registry.builtin()


def found(group: str, version: str, plural: str) -> Kind:
    kind = REGISTRY.find(group, version, plural)
    assert kind is not None
    return kind


EVENTS = found("events.k8s.io", "v1", "events")
V1 = found("autoscaling", "v1", "horizontalpodautoscalers")
V2 = found("autoscaling", "v2", "horizontalpodautoscalers")
REFERENCE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def memory(value: str) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "Resource", "resource": {"name": "memory", "target": target}}


def autoscaler(**spec: Any) -> dict[str, Any]:
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": REFERENCE, "maxReplicas": 5, **spec},
        "status": {"desiredReplicas": 2},
    }


def test_both_versions_are_one_resource_and_the_newer_is_preferred() -> None:
    assert (V1.prefix, V1.resource) == (V2.prefix, V2.resource)
    assert REGISTRY.by_resource("horizontalpodautoscalers.autoscaling") is V2


def test_a_kind_of_its_own_is_left_as_it_is() -> None:
    obj = autoscaler()
    assert shared.shown(V2, obj) is obj
    assert shared.stored(V2, obj) is obj


def test_the_cpu_target_is_a_field_of_v1_and_a_metric_of_v2() -> None:
    old = shared.shown(V1, autoscaler(metrics=[cpu(70)]))
    assert (old["apiVersion"], old["metadata"]) == ("autoscaling/v1", {"name": "web"})
    assert old["spec"] == {
        "scaleTargetRef": REFERENCE,
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 70,
    }
    assert old["status"] == {"currentReplicas": 0, "desiredReplicas": 2}
    assert shared.stored(V1, old) == autoscaler(metrics=[cpu(70)])


def test_what_v1_cannot_say_travels_in_annotations() -> None:
    behavior = {"scaleDown": {"selectPolicy": "Disabled"}}
    new = autoscaler(metrics=[memory("1Gi"), cpu(50)], behavior=behavior)
    old = shared.shown(V1, new)
    notes = old["metadata"]["annotations"]
    assert {name.rpartition("/")[2]: json.loads(text) for name, text in notes.items()} == {
        "metrics": [memory("1Gi")],
        "behavior": behavior,
    }
    assert shared.stored(V1, old) == autoscaler(metrics=[cpu(50), memory("1Gi")], behavior=behavior)


def test_somebody_elses_annotation_is_no_trouble() -> None:
    old = shared.shown(V1, autoscaler())
    old["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/metrics": "{nonsense", "mine": "1"}
    stored = shared.stored(V1, old)
    assert stored["metadata"]["annotations"] == {"mine": "1"}
    assert "metrics" not in stored["spec"]


@given(
    st.dictionaries(
        st.sampled_from(["note", "regarding", "deprecatedCount", "reason", "type"]), st.integers()
    )
)
def test_an_event_comes_back_as_it_went_in(fields: dict[str, Any]) -> None:
    event = {"kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {}, **fields}
    assert shared.shown(EVENTS, shared.stored(EVENTS, event)) == event
    assert "note" not in shared.stored(EVENTS, event)
