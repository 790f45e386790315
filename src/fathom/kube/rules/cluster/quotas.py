"""Rules of ResourceQuotas and LimitRanges."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.resources import (
    check_amount,
    check_container_name,
    check_name,
    check_quota_name,
    is_quota_name,
    may_overcommit,
)
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj
from fathom.model.quantity import Quantity, of_value, parse

_POD_COMPUTE = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
_SCOPES = {
    "Terminating": _POD_COMPUTE,
    "NotTerminating": _POD_COMPUTE,
    "NotBestEffort": _POD_COMPUTE,
    "PriorityClass": _POD_COMPUTE,
    "CrossNamespacePodAffinity": _POD_COMPUTE,
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_OPPOSITES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_ONLY_EXISTS = frozenset(_SCOPES) - {"PriorityClass", "VolumeAttributesClass"}
_NAMES_MAX, _TERMS_MAX, _VALUES_MAX = 1_000, 100, 256
_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


class ResourceQuotaRules(KindRules):
    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj.get("spec") or {}
        _check_counts(problems, spec)
        _check_amounts(problems, spec.get("hard") or {}, "spec.hard")
        _check_scopes(problems, spec)
        _check_scope_selector(problems, spec)
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = self.validate_create(obj)
        scopes, before = (obj.get("spec") or {}).get("scopes"), (old.get("spec") or {}).get("scopes")
        if sorted(scopes or ()) != sorted(before or ()):
            problems.append(causes.invalid("spec.scopes", scopes, causes.IMMUTABLE))
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        status = obj.get("status") or {}
        for side in ("hard", "used"):
            _check_amounts(problems, status.get(side) or {}, f"status.{side}")
        return problems


def _check_counts(problems: list[Cause], spec: Obj) -> None:
    """Limit the resources, scopes and terms: every counted object is compared with all of them."""
    hard, scopes = spec.get("hard") or {}, spec.get("scopes") or []
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if len(hard) > _NAMES_MAX:
        problems.append(causes.too_many("spec.hard", len(hard), _NAMES_MAX))
    if len(scopes) > _TERMS_MAX:
        problems.append(causes.too_many("spec.scopes", len(scopes), _TERMS_MAX))
    field = "spec.scopeSelector.matchExpressions"
    if len(expressions) > _TERMS_MAX:
        problems.append(causes.too_many(field, len(expressions), _TERMS_MAX))
    for index, expression in enumerate(expressions):
        values = expression.get("values") or ()
        if len(values) > _VALUES_MAX:
            problems.append(causes.too_many(f"{field}[{index}].values", len(values), _VALUES_MAX))


def _check_amounts(problems: list[Cause], amounts: Obj, field: str) -> None:
    for name, text in amounts.items():
        check_quota_name(problems, name, f"{field}[{name}]")
        check_amount(problems, name, parse(text), f"{field}[{name}]")


def _check_scopes(problems: list[Cause], spec: Obj) -> None:
    scopes, field = spec.get("scopes") or [], "spec.scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            problems.append(causes.invalid(field, scopes, "unsupported scope"))
        elif not _scope_fits(scope, spec.get("hard") or {}):
            problems.append(causes.invalid(field, scopes, "unsupported scope applied to resource"))
    for pair in _OPPOSITES:
        if all(scope in scopes for scope in pair):
            problems.append(causes.invalid(field, scopes, "conflicting scopes"))


def _scope_fits(scope: str, hard: Obj) -> bool:
    return all(name in _SCOPES[scope] for name in hard if is_quota_name(name))


def _check_scope_selector(problems: list[Cause], spec: Obj) -> None:
    selector, field = spec.get("scopeSelector") or {}, "spec.scopeSelector.matchExpressions"
    for expression in selector.get("matchExpressions") or ():
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        values = expression.get("values") or []
        if scope not in _SCOPES:
            problems.append(causes.invalid(f"{field}.scopeName", scope, "unsupported scope"))
        elif not _scope_fits(scope, spec.get("hard") or {}):
            problems.append(causes.invalid(field, selector, "unsupported scope applied to resource"))
        if scope in _ONLY_EXISTS and operator != "Exists":
            detail = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            problems.append(causes.invalid(f"{field}.operator", operator, detail))
        _check_scope_values(problems, operator, values, field)


def _check_scope_values(problems: list[Cause], operator: str, values: list[str], field: str) -> None:
    if operator in {"In", "NotIn"}:
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            problems.append(causes.required(f"{field}.values", detail))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            problems.append(causes.invalid(f"{field}.values", values, detail))
    else:
        problems.append(causes.invalid(f"{field}.operator", operator, "not a valid selector operator"))


class LimitRangeRules(KindRules):
    def default(self, obj: Obj) -> None:
        """A container's default limit is its maximum; its default request is that limit, or else
        the minimum."""
        for limit in (obj.get("spec") or {}).get("limits") or ():
            if limit.get("type") != "Container":
                continue
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            if default:
                limit["default"] = default
            if request:
                limit["defaultRequest"] = request

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        seen: set[str] = set()
        for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
            limit_field, kind = f"spec.limits[{index}]", limit.get("type", "")
            _check_limit_type(problems, kind, f"{limit_field}.type")
            if kind in seen:
                problems.append(causes.duplicate(f"{limit_field}.type", kind))
            seen.add(kind)
            _check_limit(problems, limit, kind, limit_field)
        return problems


def _check_limit_type(problems: list[Cause], kind: str, field: str) -> None:
    if reasons := formats.qualified_name(kind):
        problems += causes.each(field, kind, reasons)
    elif "/" not in kind and kind not in _LIMIT_TYPES:
        problems.append(causes.invalid(field, kind, "must be a standard limit type or fully qualified"))


def _check_limit(problems: list[Cause], limit: Obj, kind: str, field: str) -> None:
    sides = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    if kind == "Pod":
        for side in ("default", "defaultRequest"):
            if limit.get(side):
                detail = "may not be specified when `type` is 'Pod'"
                problems.append(causes.forbidden(f"{field}.{side}", detail))
            sides.remove(side)
    names: dict[str, None] = {}
    for side in sides:
        for name in limit.get(side) or ():
            names[name] = None
            if kind in {"Pod", "Container"}:
                check_container_name(problems, name, f"{field}.{side}[{name}]")
            else:
                check_name(problems, name, f"{field}.{side}[{name}]")
    if kind == "PersistentVolumeClaim" and not any(
        "storage" in (limit.get(bound) or {}) for bound in ("min", "max")
    ):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        problems.append(causes.required(f"{field}.limits", detail))
    for name in names:
        _check_limit_amounts(problems, {side: _amount(limit, side, name) for side in sides}, name, field)


def _amount(limit: Obj, side: str, name: str) -> Quantity | None:
    text = (limit.get(side) or {}).get(name)
    return None if text is None else parse(text)


# The side that must not be above the other, the other side, whose field and whose value the message shows,
# and the names of both sides in the message.
_ORDER = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value",
        "default limit value",
    ),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)


def _check_limit_amounts(
    problems: list[Cause], amounts: dict[str, Quantity | None], name: str, field: str
) -> None:
    for small, large, where, shown, small_words, large_words in _ORDER:
        low, high = amounts.get(small), amounts.get(large)
        if low is not None and high is not None and low > high:
            detail = f"{small_words} {low} is greater than {large_words} {high}"
            problems.append(causes.invalid(f"{field}.{where}[{name}]", str(amounts[shown]), detail))
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is not None and ratio < of_value(1):
        where = f"{field}.maxLimitRequestRatio[{name}]"
        problems.append(causes.invalid(where, str(ratio), f"ratio {ratio} is less than 1"))
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if default is not None and request is not None and default != request and not may_overcommit(name):
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        problems.append(causes.invalid(f"{field}.defaultRequest[{name}]", str(request), detail))
