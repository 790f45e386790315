"""Rules of a pod's placement fields: node and pod affinity, tolerations, topology spread."""

from __future__ import annotations

from fathom.kube.rules.selectors import check_operator, check_selector
from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj

# Each is evaluated for every node at every attempt to place the pod, and when somebody asks why it waits.
SPREADS_MAX = 200
POD_TERMS_MAX = 1_000
NODE_EXPRESSIONS_MAX = 1_000  # Of all terms of the node affinity together.
TOLERATIONS_MAX = 1_000
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SCHEDULE_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES = ("Honor", "Ignore")
_WEIGHT_RANGE = "must be in the range 1-100"


def check_affinity(problems: list[Cause], affinity: Obj, field: str) -> None:
    if node := affinity.get("nodeAffinity"):
        _check_node_affinity(problems, node, f"{field}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if terms := affinity.get(name):
            _check_pod_affinity(problems, terms, f"{field}.{name}")


def _check_node_affinity(problems: list[Cause], affinity: Obj, field: str) -> None:
    required = affinity.get(REQUIRED)
    count = _node_expressions(affinity)
    if count > NODE_EXPRESSIONS_MAX:
        problems.append(causes.too_many(field, count, NODE_EXPRESSIONS_MAX))
        return
    if required is not None:
        check_node_selector(problems, required, f"{field}.{REQUIRED}")
    for index, term in enumerate(affinity.get(PREFERRED) or ()):
        term_field = f"{field}.{PREFERRED}[{index}]"
        _check_weight(problems, term, term_field)
        _check_node_term(problems, term.get("preference") or {}, f"{term_field}.preference", strict=False)


def _node_expressions(affinity: Obj) -> int:
    """How many expressions it has; a term without any counts as one."""
    terms = [*((affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ())]
    terms += (term.get("preference") or {} for term in affinity.get(PREFERRED) or ())
    return sum(
        max(1, len(term.get("matchExpressions") or ()) + len(term.get("matchFields") or ())) for term in terms
    )


def check_node_selector(problems: list[Cause], selector: Obj, field: str) -> None:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        detail = "must have at least one node selector term"
        problems.append(causes.required(f"{field}.nodeSelectorTerms", detail))
        return
    for index, term in enumerate(terms):
        _check_node_term(problems, term, f"{field}.nodeSelectorTerms[{index}]", strict=True)


def _check_node_term(problems: list[Cause], term: Obj, field: str, *, strict: bool) -> None:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        _check_node_expression(problems, expression, f"{field}.matchExpressions[{index}]", strict=strict)
    for index, expression in enumerate(term.get("matchFields") or ()):
        _check_node_field(problems, expression, f"{field}.matchFields[{index}]")


def _check_node_expression(problems: list[Cause], expression: Obj, field: str, *, strict: bool) -> None:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator in {"Gt", "Lt"}:
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            problems.append(causes.required(f"{field}.values", detail))
    else:
        check_operator(problems, operator, values, field)
    key = expression.get("key", "")
    problems += causes.each(f"{field}.key", key, formats.qualified_name(key))
    if strict:  # An impossible preference is harmless.
        for index, value in enumerate(values):
            problems += causes.each(f"{field}.values[{index}]", value, formats.label_value(value))


def _check_node_field(problems: list[Cause], expression: Obj, field: str) -> None:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator not in {"In", "NotIn"}:
        problems.append(causes.invalid(f"{field}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        problems.append(causes.required(f"{field}.values", detail))
    key = expression.get("key", "")
    if key != "metadata.name":
        problems.append(causes.invalid(f"{field}.key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        problems += causes.each(f"{field}.values[{index}]", value, formats.dns_subdomain(value))


def _check_weight(problems: list[Cause], term: Obj, field: str) -> None:
    weight = term.get("weight", 0)
    if not 0 < weight <= 100:
        problems.append(causes.invalid(f"{field}.weight", weight, _WEIGHT_RANGE))


def _check_pod_affinity(problems: list[Cause], affinity: Obj, field: str) -> None:
    for rule in (REQUIRED, PREFERRED):
        if len(affinity.get(rule) or ()) > POD_TERMS_MAX:
            problems.append(causes.too_many(f"{field}.{rule}", len(affinity[rule]), POD_TERMS_MAX))
            return
    for index, term in enumerate(affinity.get(REQUIRED) or ()):
        _check_pod_term(problems, term, f"{field}.{REQUIRED}[{index}]")
    for index, term in enumerate(affinity.get(PREFERRED) or ()):
        term_field = f"{field}.{PREFERRED}[{index}]"
        _check_weight(problems, term, term_field)
        _check_pod_term(problems, term.get("podAffinityTerm") or {}, f"{term_field}.podAffinityTerm")


def _check_pod_term(problems: list[Cause], term: Obj, field: str) -> None:
    check_selector(problems, term.get("labelSelector"), f"{field}.labelSelector")
    check_selector(problems, term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for namespace in term.get("namespaces") or ():
        problems += causes.each(f"{field}.namespace", namespace, formats.dns_label(namespace))
    check_label_keys(problems, term, field)
    key = term.get("topologyKey", "")
    if not key:
        problems.append(causes.required(f"{field}.topologyKey", "can not be empty"))
    problems += causes.each(f"{field}.topologyKey", key, formats.qualified_name(key))


def check_label_keys(problems: list[Cause], term: Obj, field: str) -> None:
    """matchLabelKeys and mismatchLabelKeys: label keys, with a selector, without duplicates. The keys have
    already been merged into the selector's expressions."""
    match, mismatch = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    if not match and not mismatch:
        return
    selector = term.get("labelSelector")
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            detail = "must not be specified when labelSelector is not set"
            problems.append(causes.forbidden(f"{field}.{name}", detail))
            continue
        for index, key in enumerate(keys):
            problems += causes.each(f"{field}.{name}[{index}]", key, formats.qualified_name(key))
    _check_selected_twice(problems, selector or {}, match, field)
    mismatched = set(mismatch)
    for index, key in enumerate(match):
        if key in mismatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            problems.append(causes.invalid(f"{field}.matchLabelKeys[{index}]", key, detail))


def _check_selected_twice(problems: list[Cause], selector: Obj, match: list[str], field: str) -> None:
    seen = {*(selector.get("matchLabels") or {})}
    first_at = {key: at for at, key in reversed(list(enumerate(match)))}
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key", "")
        if key in first_at and key in seen:
            detail = "exists in both matchLabelKeys and labelSelector"
            problems.append(causes.invalid(f"{field}[{first_at[key]}]", key, detail))
        seen.add(key)


def merge_label_keys(spec: Obj, labels: dict[str, str]) -> None:
    """Write matchLabelKeys into the selectors beside them, once, with the pod's own values."""
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        for term in terms.get(REQUIRED) or ():
            _merge_term(term, labels)
        for weighted in terms.get(PREFERRED) or ():
            _merge_term(weighted.get("podAffinityTerm") or {}, labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_term(constraint, labels)


def _merge_term(term: Obj, labels: dict[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(name) or ()
        if key in labels
    ]
    if added:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def check_tolerations(problems: list[Cause], tolerations: list[Obj], field: str) -> None:
    if len(tolerations) > TOLERATIONS_MAX:
        problems.append(causes.too_many(field, len(tolerations), TOLERATIONS_MAX))
        return
    for index, toleration in enumerate(tolerations):
        _check_toleration(problems, toleration, f"{field}[{index}]")


def _check_toleration(problems: list[Cause], toleration: Obj, field: str) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    if key:
        problems += causes.each(f"{field}.key", key, formats.qualified_name(key))
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        problems.append(causes.invalid(f"{field}.operator", operator, detail))
    effect = toleration.get("effect", "")
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        problems.append(causes.invalid(f"{field}.effect", effect, detail))
    _check_toleration_value(problems, operator, toleration.get("value", ""), field)
    if effect and effect not in TAINT_EFFECTS:
        problems.append(causes.not_supported(f"{field}.effect", effect, TAINT_EFFECTS))


def _check_toleration_value(problems: list[Cause], operator: str, value: str, field: str) -> None:
    if operator in {"", "Equal"}:
        if reasons := formats.label_value(value):
            problems.append(causes.invalid(f"{field}.operator", value, ";".join(reasons)))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            problems.append(causes.invalid(f"{field}.operator", value, detail))
    else:
        problems.append(causes.not_supported(f"{field}.operator", operator, ("Equal", "Exists")))


def check_spread(problems: list[Cause], constraints: list[Obj], field: str) -> None:
    if len(constraints) > SPREADS_MAX:
        problems.append(causes.too_many(field, len(constraints), SPREADS_MAX))
        return
    last_at = {_spread_pair(constraint): index for index, constraint in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        constraint_field = f"{field}[{index}]"
        _check_constraint(problems, constraint, constraint_field)
        pair = _spread_pair(constraint)
        if last_at[pair] > index:
            where = f"{constraint_field}.{{topologyKey, whenUnsatisfiable}}"
            problems.append(causes.duplicate(where, f"{{{pair[0]}, {pair[1]}}}"))


def _spread_pair(constraint: Obj) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _check_constraint(problems: list[Cause], constraint: Obj, field: str) -> None:
    skew = constraint.get("maxSkew", 0)
    if skew <= 0:
        problems.append(causes.invalid(f"{field}.maxSkew", skew, causes.MUST_BE_POSITIVE))
    key, action = _spread_pair(constraint)
    if not key:
        problems.append(causes.required(f"{field}.topologyKey", "can not be empty"))
    if action not in _SCHEDULE_ACTIONS:
        problems.append(causes.not_supported(f"{field}.whenUnsatisfiable", action, _SCHEDULE_ACTIONS))
    _check_min_domains(problems, constraint.get("minDomains"), action, f"{field}.minDomains")
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(name)
        if policy is not None and policy not in _NODE_POLICIES:
            problems.append(causes.not_supported(f"{field}.{name}", policy, _NODE_POLICIES))
    check_label_keys(problems, constraint, field)
    check_selector(problems, constraint.get("labelSelector"), f"{field}.labelSelector")


def _check_min_domains(problems: list[Cause], domains: int | None, action: str, field: str) -> None:
    if domains is None:
        return
    if domains <= 0:
        problems.append(causes.invalid(field, domains, causes.MUST_BE_POSITIVE))
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        problems.append(causes.invalid(field, domains, detail))
