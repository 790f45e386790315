"""Rules that workloads share: selector matches template, replica counts, numbers or percentages."""

from __future__ import annotations

from typing import Any

from fathom.kube.rules.pod.spec import check_pod_template
from fathom.kube.rules.selectors import check_selector, is_empty, selects
from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_NO_MATCH = "`selector` does not match template `labels`"


def check_counts(problems: list[Cause], obj: Obj, names: tuple[str, ...], field: str) -> None:
    for name in names:
        value = obj.get(name)
        if value is not None and value < 0:
            problems.append(causes.invalid(f"{field}.{name}", value, causes.MUST_NOT_BE_NEGATIVE))


def check_at_most(problems: list[Cause], status: Obj, names: tuple[str, ...], limit: str) -> None:
    """Counts of a status that must not be greater than another one."""
    maximum = status.get(limit, 0)
    for name in names:
        count = status.get(name, 0)
        if count > maximum:
            detail = f"cannot be greater than {'status.replicas' if limit == 'replicas' else limit}"
            problems.append(causes.invalid(f"status.{name}", count, detail))


def check_collisions(problems: list[Cause], status: Obj, old: Obj) -> None:
    new, before = status.get("collisionCount"), old.get("collisionCount")
    if before is not None and (new is None or new < before):
        problems.append(causes.invalid("status.collisionCount", new or 0, "cannot be decremented"))


def check_selected_template(problems: list[Cause], spec: Obj, kind: str, *, empty_for: str = "") -> None:
    """`spec.selector` and `spec.template` of a workload that keeps pods running."""
    selector = spec.get("selector")
    if selector is None:
        problems.append(causes.required("spec.selector"))
    else:
        check_selector(problems, selector, "spec.selector")
        if is_empty(selector):
            detail = f"empty selector is invalid for {empty_for or kind.lower()}"
            problems.append(causes.invalid("spec.selector", selector, detail))
    template = spec.get("template") or {}
    if check_template_labels(problems, selector, template):
        check_pod_template(problems, template, "spec.template")
        check_kept_running(problems, template, kind)


def check_template_labels(problems: list[Cause], selector: Obj | None, template: Obj) -> bool:
    """Whether the selector is well formed."""
    labels = (template.get("metadata") or {}).get("labels")
    matched = selects(selector, labels or {})
    if matched is None:
        problems.append(causes.invalid("spec.selector", selector, "invalid label selector"))
    elif not matched:
        problems.append(causes.invalid("spec.template.metadata.labels", labels, _NO_MATCH))
    return matched is not None


def check_kept_running(problems: list[Cause], template: Obj, kind: str) -> None:
    spec = template.get("spec") or {}
    restart = spec.get("restartPolicy", "Always")
    if restart != "Always":
        problems.append(causes.not_supported("spec.template.spec.restartPolicy", restart, ("Always",)))
    if "activeDeadlineSeconds" in spec:
        where = "spec.template.spec.activeDeadlineSeconds"
        problems.append(causes.forbidden(where, f"activeDeadlineSeconds in {kind} is not Supported"))


def check_int_or_percent(problems: list[Cause], value: Any, field: str) -> None:
    if isinstance(value, str):
        problems += causes.each(field, value, formats.percent(value))
    else:
        problems += causes.not_negative(field, value)


def check_up_to_all(problems: list[Cause], value: Any, field: str) -> None:
    if isinstance(value, str) and not formats.percent(value) and int_or_percent(value) > 100:
        problems.append(causes.invalid(field, value, "must not be greater than 100%"))


def int_or_percent(value: Any) -> int:
    """The number before the percent sign, or the number itself; 0 for what is neither."""
    if not isinstance(value, str):
        return int(value or 0)
    if formats.percent(value):
        return 0
    return int(value[:-1]) if len(value) < 20 else 10**18
