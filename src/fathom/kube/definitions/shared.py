"""Kinds that share one storage: conversion between the stored form and the form of each kind.

stored                                        also served as
v1 Event                                      events.k8s.io/v1 Event
autoscaling/v2 HorizontalPodAutoscaler        autoscaling/v1 HorizontalPodAutoscaler
a custom kind in its storage version          its other versions, which have the same fields
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from fathom.kube.definitions.kind import Kind
from fathom.model.body import decode_json, encode_json
from fathom.model.objects import Obj


class Conversion(NamedTuple):
    shown: Callable[[Obj], Obj]  # From the stored form, which is not changed.
    stored: Callable[[Obj], Obj]


def shown(kind: Kind, obj: Obj) -> Obj:
    """A stored object in the form of the requested kind."""
    if kind.stored_version:
        return _of_version(kind, obj)
    return _CONVERSIONS[kind.stored_as].shown(obj) if kind.stored_as else obj


def stored(kind: Kind, obj: Obj) -> Obj:
    """An object as the caller wrote it, in its stored form."""
    if kind.stored_version:
        return {**obj, "apiVersion": kind.stored_version}
    return _CONVERSIONS[kind.stored_as].stored(obj) if kind.stored_as else obj


def _of_version(kind: Kind, obj: Obj) -> Obj:
    """As Kubernetes converts without a webhook: another apiVersion, and the fields that this version has,
    with its defaults: whoever wrote the object may not have known them."""
    copy: Obj = decode_json(encode_json({**obj, "apiVersion": kind.api_version}))
    kind.structural.prune(copy)
    kind.structural.default(copy)
    return copy


# Field names of a core/v1 Event -> their names in events.k8s.io/v1.
_EVENT_FIELDS: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_EVENT_FIELDS: Final = {new: old for old, new in _EVENT_FIELDS.items()}


def _event(obj: Obj) -> Obj:
    renamed = {_EVENT_FIELDS.get(field, field): value for field, value in obj.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1"}


def _core_event(obj: Obj) -> Obj:
    renamed = {_CORE_EVENT_FIELDS.get(field, field): value for field, value in obj.items()}
    return {**renamed, "apiVersion": "v1"}


# autoscaling/v1 has one target, the CPU's. The rest of v2 is in annotations, as in Kubernetes.
_PERCENT, _NOW_PERCENT = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
_METRICS, _BEHAVIOR, _CURRENT, _CONDITIONS = (
    f"autoscaling.alpha.kubernetes.io/{name}"
    for name in ("metrics", "behavior", "current-metrics", "conditions")
)


def _autoscaler_v1(obj: Obj) -> Obj:
    spec, status = {**(obj.get("spec") or {})}, {**(obj.get("status") or {})}
    percent, metrics = _without_cpu(spec.pop("metrics", []), "target")
    now_percent, current = _without_cpu(status.pop("currentMetrics", []), "current")
    annotated = {
        _METRICS: metrics,
        _BEHAVIOR: spec.pop("behavior", None),
        _CURRENT: current,
        _CONDITIONS: status.pop("conditions", None),
    }
    spec |= {} if percent is None else {_PERCENT: percent}
    status = {"currentReplicas": 0, "desiredReplicas": 0, **status}  # v1 always has them.
    status |= {} if now_percent is None else {_NOW_PERCENT: now_percent}
    annotations = {name: encode_json(value).decode() for name, value in annotated.items() if value}
    meta = {**obj["metadata"]}
    if annotations:
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    return {**obj, "apiVersion": "autoscaling/v1", "metadata": meta, "spec": spec, "status": status}


def _without_cpu(metrics: list[Obj], side: str) -> tuple[int | None, list[Obj]]:
    """The CPU's percentage and all other metrics."""
    for at, metric in enumerate(metrics):
        resource = metric.get("resource") or {}
        percent = (resource.get(side) or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and percent is not None:
            return percent, [*metrics[:at], *metrics[at + 1 :]]
    return None, metrics


def _autoscaler_v2(obj: Obj) -> Obj:
    spec, status = {**(obj.get("spec") or {})}, {**(obj.get("status") or {})}
    meta = {**(obj.get("metadata") or {})}
    if not status.get("currentReplicas"):
        status.pop("currentReplicas", None)  # v2 omits a zero.
    annotations = {**(meta.pop("annotations", None) or {})}
    metrics = _with_cpu(spec.pop(_PERCENT, None), _read(annotations.pop(_METRICS, "")), target=True)
    current = _with_cpu(status.pop(_NOW_PERCENT, None), _read(annotations.pop(_CURRENT, "")), target=False)
    behavior, conditions = _read(annotations.pop(_BEHAVIOR, "")), _read(annotations.pop(_CONDITIONS, ""))
    spec |= {name: value for name, value in (("metrics", metrics), ("behavior", behavior)) if value}
    status |= {
        name: value for name, value in (("currentMetrics", current), ("conditions", conditions)) if value
    }
    meta |= {"annotations": annotations} if annotations else {}
    autoscaler = {**obj, "apiVersion": "autoscaling/v2", "metadata": meta, "spec": spec}
    return {**autoscaler, "status": status} if status else autoscaler


def _with_cpu(percent: int | None, annotation: Any, *, target: bool) -> list[Obj]:
    metrics = annotation if isinstance(annotation, list) else []
    if percent is None:
        return metrics
    value = {"averageUtilization": percent}
    side = {"target": {"type": "Utilization", **value}} if target else {"current": value}
    return [{"type": "Resource", "resource": {"name": "cpu", **side}}, *metrics]


def _read(text: str) -> Any:
    """The value in an annotation; None where it is no JSON, so not written by fathom."""
    try:
        return decode_json(text.encode())
    except (msgspec.DecodeError, RecursionError):
        return None


_CONVERSIONS: Final[Mapping[str, Conversion]] = MappingProxyType(
    {
        "events": Conversion(_event, _core_event),
        "horizontalpodautoscalers.autoscaling": Conversion(_autoscaler_v1, _autoscaler_v2),
    }
)
