"""Which objects a quota counts: `spec.scopes` and `spec.scopeSelector`. All must match.

Only pods have scopes, and reservations, which count like pods with the same requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fathom.kinds.reservation import RESERVATIONS
from fathom.model.objects import Obj, lookup
from fathom.model.podresources import is_best_effort

_Rule = tuple[str, str, list[str]]  # scope, operator, values


def in_scope(quota: Obj, resource: str, obj: Obj, known: dict[str, bool] | None = None) -> bool:
    """`known`: which scopes the object is in, as far as it was already looked at for other quotas."""
    rules = list(_rules(quota))
    if resource == RESERVATIONS and rules:
        obj = _as_pod(obj)
    scopes = {} if known is None else known
    return all(resource in _SCOPED and _holds(rule, obj, scopes) for rule in rules)


_SCOPED = frozenset({"pods", RESERVATIONS})


def _as_pod(reservation: Obj) -> Obj:
    requests = lookup(reservation, "spec", "resources") or {}
    return {"spec": {"containers": [{"resources": {"requests": requests}}]}}


def _rules(quota: Obj) -> Iterator[_Rule]:
    spec = quota.get("spec") or {}
    for scope in spec.get("scopes") or ():
        yield scope, "Exists", []
    for expression in lookup(spec, "scopeSelector", "matchExpressions") or ():
        yield expression.get("scopeName"), expression.get("operator"), expression.get("values") or []


def _holds(rule: _Rule, pod: Obj, known: dict[str, bool]) -> bool:
    scope, operator, values = rule
    if scope == "PriorityClass":
        return _class_holds(str(lookup(pod, "spec", "priorityClassName") or ""), operator, values)
    if scope not in known:
        test = _SCOPES.get(scope)
        known[scope] = test is not None and test(pod)
    return known[scope]


def _class_holds(name: str, operator: str, values: list[str]) -> bool:
    match operator:
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _is_terminating(pod: Obj) -> bool:
    """Bounded in time, not being deleted: Kubernetes' term for pods with a deadline."""
    deadline_s = lookup(pod, "spec", "activeDeadlineSeconds")
    return deadline_s is not None and deadline_s >= 0


def _is_not_terminating(pod: Obj) -> bool:
    return not _is_terminating(pod)


def _is_not_best_effort(pod: Obj) -> bool:
    return not is_best_effort(pod)


def _crosses_namespaces(pod: Obj) -> bool:
    affinity = lookup(pod, "spec", "affinity") or {}
    terms = [term for kind in ("podAffinity", "podAntiAffinity") for term in _terms(affinity.get(kind) or {})]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)


def _terms(affinity: Obj) -> Iterator[Obj]:
    yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        yield weighted.get("podAffinityTerm") or {}


_SCOPES: dict[str, Callable[[Obj], bool]] = {
    "Terminating": _is_terminating,
    "NotTerminating": _is_not_terminating,
    "BestEffort": is_best_effort,
    "NotBestEffort": _is_not_best_effort,
    "CrossNamespacePodAffinity": _crosses_namespaces,
}
