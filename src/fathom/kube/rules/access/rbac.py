"""Rules of roles and their bindings."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules
from fathom.kube.rules.compare import same
from fathom.kube.rules.selectors import check_selector
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj
from fathom.model.resource_names import RBAC_GROUP

# Authorization may check each rule for every request. The longest real roles have some hundreds.
RULES_MAX = 5_000
_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


class RoleRules(KindRules):
    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        rules = obj.get("rules") or ()
        if len(rules) > RULES_MAX:
            problems.append(causes.too_many("rules", len(rules), RULES_MAX))
        for index, rule in enumerate(rules):
            _check_rule(problems, rule, f"rules[{index}]", namespaced=self._namespaced)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            _check_aggregation(problems, aggregation.get("clusterRoleSelectors") or [])
        return problems


def _check_aggregation(problems: list[Cause], selectors: list[Obj]) -> None:
    field = "aggregationRule.clusterRoleSelectors"
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        problems.append(causes.required(field, detail))
    for index, selector in enumerate(selectors):
        check_selector(problems, selector, f"{field}[{index}]")


def _check_rule(problems: list[Cause], rule: Obj, field: str, *, namespaced: bool) -> None:
    if not rule.get("verbs"):
        problems.append(causes.required(f"{field}.verbs", "verbs must contain at least one value"))
    urls, where = rule.get("nonResourceURLs"), f"{field}.nonResourceURLs"
    if urls:
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            problems.append(causes.invalid(where, urls, detail))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            problems.append(causes.invalid(where, urls, detail))
        return
    if not rule.get("apiGroups"):
        detail = "resource rules must supply at least one api group"
        problems.append(causes.required(f"{field}.apiGroups", detail))
    if not rule.get("resources"):
        detail = "resource rules must supply at least one resource"
        problems.append(causes.required(f"{field}.resources", detail))


class RoleBindingRules(KindRules):
    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced
        self._role_kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def default(self, obj: Obj) -> None:
        """Subjects that are users or groups get RBAC's API group; service accounts do not."""
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
                subject["apiGroup"] = RBAC_GROUP

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        ref = obj.get("roleRef") or {}
        group, kind, name = ref.get("apiGroup", ""), ref.get("kind", ""), ref.get("name", "")
        if group != RBAC_GROUP:
            problems.append(causes.not_supported("roleRef.apiGroup", group, (RBAC_GROUP,)))
        if kind not in self._role_kinds:
            problems.append(causes.not_supported("roleRef.kind", kind, self._role_kinds))
        if not name:
            problems.append(causes.required("roleRef.name"))
        else:
            problems += causes.each("roleRef.name", name, formats.path_segment(name))
        for index, subject in enumerate(obj.get("subjects") or ()):
            _check_subject(problems, subject, f"subjects[{index}]", namespaced=self._namespaced)
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = self.validate_create(obj)
        if not same(obj.get("roleRef"), old.get("roleRef")):
            problems.append(causes.invalid("roleRef", obj.get("roleRef"), causes.IMMUTABLE))
        return problems


def _check_subject(problems: list[Cause], subject: Obj, field: str, *, namespaced: bool) -> None:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        problems.append(causes.required(f"{field}.name"))
    if kind == "ServiceAccount":
        if name:
            problems += causes.each(f"{field}.name", name, formats.dns_subdomain(name))
        if group:
            problems.append(causes.not_supported(f"{field}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            problems.append(causes.required(f"{field}.namespace"))
    elif kind in {"User", "Group"}:
        if group != RBAC_GROUP:
            problems.append(causes.not_supported(f"{field}.apiGroup", group, (RBAC_GROUP,)))
    else:
        problems.append(causes.not_supported(f"{field}.kind", kind, _SUBJECT_KINDS))
