"""Rules of a Job's spec, in a Job or in the template of a CronJob."""

from __future__ import annotations

from fathom.kube.rules.pod.defaults import default_template
from fathom.kube.rules.pod.spec import check_pod_template
from fathom.kube.rules.workloads.shared import check_counts
from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_INT32_MAX = 2147483647
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ("NonIndexed", "Indexed")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")
# kube-apiserver's limits, which bound the length of the lists of indexes in a status.
_INDEXED_PARALLELISM_MAX = _FAILED_INDEXES_MAX = _COMPLETIONS_SOFT_MAX = 100_000
_RULES_MAX, _EXIT_CODES_MAX, _CONDITIONS_MAX = 20, 255, 20
_MANAGED_BY_MAX = 63


def default_job_spec(spec: Obj) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _INT32_MAX if "backoffLimitPerIndex" in spec else 6)
    replaced = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replaced)
    default_template(spec.get("template") or {})


def check_job_spec(problems: list[Cause], spec: Obj, field: str) -> None:
    """All but the selector, which a CronJob's template may not have."""
    check_counts(problems, spec, _COUNTS, field)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        detail = "when maxFailedIndexes is specified"
        problems.append(causes.required(f"{field}.backoffLimitPerIndex", detail))
    if "managedBy" in spec:
        _check_managed_by(problems, spec["managedBy"], f"{field}.managedBy")
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in _MODES:
        problems.append(causes.not_supported(f"{field}.completionMode", mode, _MODES))
    elif mode == "Indexed":
        _check_indexed(problems, spec, field)
    else:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if name in spec:
                detail = "requires indexed completion mode"
                problems.append(causes.invalid(f"{field}.{name}", spec[name], detail))
    if policy := spec.get("podFailurePolicy"):
        _check_failure_policy(problems, policy, spec, f"{field}.podFailurePolicy")
    _check_replacement(problems, spec, f"{field}.podReplacementPolicy")
    template = spec.get("template") or {}
    check_pod_template(problems, template, f"{field}.template")
    _check_restart(problems, template, f"{field}.template.spec.restartPolicy", "podFailurePolicy" in spec)


def _check_managed_by(problems: list[Cause], name: str, field: str) -> None:
    host, slash, path = name.partition("/")
    if not name:
        problems.append(causes.required(field))
    elif not slash or not host or not path:
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        problems.append(causes.invalid(field, name, detail))
    else:
        problems += causes.each(field, host, formats.dns_subdomain(host))
        problems += causes.each(field, path, formats.http_path(path))
    if len(name.encode()) > _MANAGED_BY_MAX:
        problems.append(causes.too_long(field, _MANAGED_BY_MAX))


def _check_indexed(problems: list[Cause], spec: Obj, field: str) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        problems.append(causes.required(f"{field}.completions", "when completion mode is Indexed"))
    if parallelism > _INDEXED_PARALLELISM_MAX:
        detail = f"must be less than or equal to {_INDEXED_PARALLELISM_MAX} when completion mode is Indexed"
        problems.append(causes.invalid(f"{field}.parallelism", parallelism, detail))
    if failed is not None and completions is not None and failed > completions:
        detail = "must be less than or equal to completions"
        problems.append(causes.invalid(f"{field}.maxFailedIndexes", failed, detail))
    if failed is not None and failed > _FAILED_INDEXES_MAX:
        detail = f"must be less than or equal to {_FAILED_INDEXES_MAX}"
        problems.append(causes.invalid(f"{field}.maxFailedIndexes", failed, detail))
    if (completions or 0) > _COMPLETIONS_SOFT_MAX and "backoffLimitPerIndex" in spec and failed is None:
        detail = f"must be specified when completions is above {_COMPLETIONS_SOFT_MAX}"
        problems.append(causes.required(f"{field}.maxFailedIndexes", detail))
    if policy := spec.get("successPolicy"):
        _check_success_policy(problems, policy, completions or 0, f"{field}.successPolicy.rules")


def _check_success_policy(problems: list[Cause], policy: Obj, completions: int, field: str) -> None:
    rules = policy.get("rules") or []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        problems.append(causes.required(field, detail))
    if len(rules) > _RULES_MAX:
        problems.append(causes.too_many(field, len(rules), _RULES_MAX))
    for index, rule in enumerate(rules):
        rule_field, count = f"{field}[{index}]", rule.get("succeededCount")
        if count is None and "succeededIndexes" not in rule:
            detail = "at least one of succeededCount or succeededIndexes must be specified"
            problems.append(causes.required(rule_field, detail))
        if count is not None:
            check_counts(problems, rule, ("succeededCount",), rule_field)
            if count > completions:
                words = "(the number of specified completions)"
                detail = f"must be less than or equal to {completions} {words}"
                problems.append(causes.invalid(f"{rule_field}.succeededCount", count, detail))


def _check_failure_policy(problems: list[Cause], policy: Obj, spec: Obj, field: str) -> None:
    rules = policy.get("rules") or []
    if len(rules) > _RULES_MAX:
        problems.append(causes.too_many(f"{field}.rules", len(rules), _RULES_MAX))
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {
        container.get("name") for key in ("containers", "initContainers") for container in pod.get(key) or ()
    }
    for index, rule in enumerate(rules):
        rule_field, action = f"{field}.rules[{index}]", rule.get("action", "")
        if not action:
            listed = " ".join(causes.quoted(allowed) for allowed in _ACTIONS)
            problems.append(causes.required(f"{rule_field}.action", f"valid values: [{listed}]"))
        elif action not in _ACTIONS:
            problems.append(causes.not_supported(f"{rule_field}.action", action, _ACTIONS))
        elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            detail = "requires the backoffLimitPerIndex to be set"
            problems.append(causes.invalid(f"{rule_field}.action", action, detail))
        _check_failure_rule(problems, rule, names, rule_field)


def _check_failure_rule(problems: list[Cause], rule: Obj, names: set[str | None], field: str) -> None:
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        _check_exit_codes(problems, codes, names, f"{field}.onExitCodes")
    if len(conditions) > _CONDITIONS_MAX:
        problems.append(causes.too_many(f"{field}.onPodConditions", len(conditions), _CONDITIONS_MAX))
    for index, pattern in enumerate(conditions):
        condition_field, kind = f"{field}.onPodConditions[{index}]", pattern.get("type", "")
        problems += causes.each(f"{condition_field}.type", kind, formats.qualified_name(kind))
        status = pattern.get("status", "True")
        if status not in _STATUSES:
            problems.append(causes.not_supported(f"{condition_field}.status", status, _STATUSES))
    if codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        problems.append(causes.invalid(field, causes.OMITTED, detail))
    if codes is None and not conditions:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        problems.append(causes.invalid(field, causes.OMITTED, detail))


def _check_exit_codes(problems: list[Cause], codes: Obj, names: set[str | None], field: str) -> None:
    operator, values, container = (
        codes.get("operator", ""),
        codes.get("values") or [],
        codes.get("containerName"),
    )
    if not operator:
        problems.append(causes.required(f"{field}.operator", 'valid values: ["In" "NotIn"]'))
    elif operator not in {"In", "NotIn"}:
        problems.append(causes.not_supported(f"{field}.operator", operator, ("In", "NotIn")))
    if container is not None and container not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        problems.append(causes.invalid(f"{field}.containerName", container, detail))
    if not values:
        problems.append(causes.invalid(f"{field}.values", values, "at least one value is required"))
    elif len(values) > _EXIT_CODES_MAX:
        problems.append(causes.too_many(f"{field}.values", len(values), _EXIT_CODES_MAX))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            where = f"{field}.values[{index}]"
            problems.append(causes.invalid(where, value, "must not be 0 for the In operator"))
        if value in seen:
            problems.append(causes.duplicate(f"{field}.values[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        problems.append(causes.invalid(f"{field}.values", values, "must be ordered"))


def _check_replacement(problems: list[Cause], spec: Obj, field: str) -> None:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    if policy not in allowed:
        problems.append(causes.not_supported(field, policy, allowed))


def _check_restart(problems: list[Cause], template: Obj, field: str, failure_policy: bool) -> None:
    restart = (template.get("spec") or {}).get("restartPolicy", "Always")
    if restart == "Always":
        problems.append(causes.required(field, 'valid values: "OnFailure", "Never"'))
    elif restart not in {"OnFailure", "Never"}:
        problems.append(causes.not_supported(field, restart, ("OnFailure", "Never")))
    elif failure_policy and restart != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        problems.append(causes.invalid(field, restart, detail))
