"""Rules of HorizontalPodAutoscalers, in the form autoscaling/v2."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj
from fathom.model.quantity import parse

# Kubernetes has no limit. The controller reads every pod of the target for every metric, every few seconds.
METRICS_MAX = 100
POLICIES_MAX = 100
STABILIZATION_S_MAX, PERIOD_S_MAX = 3600, 1800

# Type of a metric -> the field that describes it.
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS = ("Utilization", "Value", "AverageValue")
_SELECTIONS = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")


class AutoscalerRules(KindRules):
    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj.get("spec") or {}
        _check_replicas(problems, spec)
        _check_target_reference(problems, spec.get("scaleTargetRef") or {})
        metrics = spec.get("metrics") or ()
        if len(metrics) > METRICS_MAX:
            problems.append(causes.too_many("spec.metrics", len(metrics), METRICS_MAX))
            return problems
        for index, metric in enumerate(metrics):
            _check_metric(problems, metric, f"spec.metrics[{index}]")
        for name in ("scaleUp", "scaleDown"):
            rules = (spec.get("behavior") or {}).get(name)
            if rules is not None:
                _check_scaling(problems, rules, f"spec.behavior.{name}")
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        return self.validate_create(obj)


def _check_replicas(problems: list[Cause], spec: Obj) -> None:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        detail = "must be greater than or equal to 1"
        problems.append(causes.invalid("spec.minReplicas", least, detail))
    if most < 1:
        problems.append(causes.invalid("spec.maxReplicas", most, "must be greater than 0"))
    if least is not None and most < least:
        detail = "must be greater than or equal to `minReplicas`"
        problems.append(causes.invalid("spec.maxReplicas", most, detail))


def _check_target_reference(problems: list[Cause], reference: Obj) -> None:
    for name in ("kind", "name"):
        field, value = f"spec.scaleTargetRef.{name}", reference.get(name) or ""
        if not value:
            problems.append(causes.required(field))
        else:
            problems += causes.each(field, value, formats.path_segment(value))


def _check_metric(problems: list[Cause], metric: Obj, field: str) -> None:
    kind = metric.get("type") or ""
    if not kind:
        problems.append(causes.required(f"{field}.type", "must specify a metric source type"))
        return
    if kind not in _SOURCES:
        problems.append(causes.not_supported(f"{field}.type", kind, sorted(_SOURCES)))
        return
    where = f"{field}.{_SOURCES[kind]}"
    source = metric.get(_SOURCES[kind])
    if not source:
        detail = "must populate information for the given metric source"
        problems.append(causes.required(where, detail))
    elif kind in {"Resource", "ContainerResource"}:
        if not source.get("name"):
            problems.append(causes.required(f"{where}.name", "must specify a resource name"))
        _check_target(problems, source.get("target") or {}, f"{where}.target")


def _check_target(problems: list[Cause], target: Obj, field: str) -> None:
    kind, utilization = target.get("type") or "", target.get("averageUtilization")
    if not kind:
        problems.append(causes.required(f"{field}.type", "must specify a metric target type"))
    elif kind not in _TARGETS:
        detail = "must be either Utilization, Value, or AverageValue"
        problems.append(causes.invalid(f"{field}.type", kind, detail))
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and parse(amount).nano <= 0:
            problems.append(causes.invalid(f"{field}.{name}", amount, "must be positive"))
    if utilization is not None and utilization < 1:
        problems.append(causes.invalid(f"{field}.averageUtilization", utilization, "must be greater than 0"))
    if utilization is None and target.get("averageValue") is None:
        detail = "must set either a target raw value or a target utilization"
        problems.append(causes.required(f"{field}.averageUtilization", detail))


def _check_scaling(problems: list[Cause], rules: Obj, field: str) -> None:
    window, selection = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    if window is not None and window < 0:
        detail = "must be greater than or equal to zero"
        problems.append(causes.invalid(f"{field}.stabilizationWindowSeconds", window, detail))
    if window is not None and window > STABILIZATION_S_MAX:
        detail = f"must be less than or equal to {STABILIZATION_S_MAX}"
        problems.append(causes.invalid(f"{field}.stabilizationWindowSeconds", window, detail))
    if selection is not None and selection not in _SELECTIONS:
        problems.append(causes.not_supported(f"{field}.selectPolicy", selection, _SELECTIONS))
    policies = rules.get("policies") or ()
    if len(policies) > POLICIES_MAX:
        problems.append(causes.too_many(f"{field}.policies", len(policies), POLICIES_MAX))
        return
    for index, policy in enumerate(policies):
        _check_policy(problems, policy, f"{field}.policies[{index}]")


def _check_policy(problems: list[Cause], policy: Obj, field: str) -> None:
    kind, value, seconds = (
        policy.get("type") or "",
        policy.get("value") or 0,
        policy.get("periodSeconds") or 0,
    )
    if kind not in _POLICIES:
        problems.append(causes.not_supported(f"{field}.type", kind, _POLICIES))
    if value <= 0:
        problems.append(causes.invalid(f"{field}.value", value, "must be greater than zero"))
    if seconds <= 0:
        problems.append(causes.invalid(f"{field}.periodSeconds", seconds, "must be greater than zero"))
    if seconds > PERIOD_S_MAX:
        detail = f"must be less than or equal to {PERIOD_S_MAX}"
        problems.append(causes.invalid(f"{field}.periodSeconds", seconds, detail))
