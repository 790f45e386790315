"""Rules of label selectors inside specs: well formed, and matching the owner's template."""

from __future__ import annotations

from collections.abc import Mapping

from fathom.kube.rules.metadata import label_causes
from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj
from fathom.model.selectors import LabelSelector

# Each term is evaluated for every object that the selector is compared with.
TERMS_MAX = 1_000
_WITH_VALUES = frozenset({"In", "NotIn"})
_WITHOUT_VALUES = frozenset({"Exists", "DoesNotExist"})


def check_selector(problems: list[Cause], selector: Obj | None, field: str) -> None:
    if not selector:
        return
    terms = len(selector.get("matchLabels") or ()) + len(selector.get("matchExpressions") or ())
    if terms > TERMS_MAX:
        problems.append(causes.too_many(field, terms, TERMS_MAX))
        return
    if labels := selector.get("matchLabels"):
        problems += label_causes(labels, f"{field}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        _check_expression(problems, expression, f"{field}.matchExpressions[{index}]")


def _check_expression(problems: list[Cause], expression: Obj, field: str) -> None:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    check_operator(problems, operator, values, field)
    key = expression.get("key", "")
    problems += causes.each(f"{field}.key", key, formats.qualified_name(key))
    for index, value in enumerate(values):
        problems += causes.each(f"{field}.values[{index}]", value, formats.label_value(value))


def check_operator(problems: list[Cause], operator: str, values: list[str], field: str) -> None:
    if operator in _WITH_VALUES:
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            problems.append(causes.required(f"{field}.values", detail))
    elif operator in _WITHOUT_VALUES:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.append(causes.forbidden(f"{field}.values", detail))
    else:
        problems.append(causes.invalid(f"{field}.operator", operator, "not a valid selector operator"))


def is_empty(selector: Obj) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects(selector: Obj | None, labels: Mapping[str, str]) -> bool | None:
    """Whether the selector matches the labels; None where it cannot be read. An absent one matches none."""
    try:
        return LabelSelector.from_object(selector).matches(labels)
    except ValueError:
        return None
