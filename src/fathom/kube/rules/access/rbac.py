"""Rules of roles and their bindings."""

from __future__ import annotations

from fathom.kube.rules.base import Strategy
from fathom.kube.rules.compare import same
from fathom.kube.rules.selectors import check_selector
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj

GROUP = "rbac.authorization.k8s.io"
# Authorization may check each rule for every request. The longest real roles have some hundreds.
RULES_MAX = 5_000
_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


class RoleStrategy(Strategy):
    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def validate_create(self, obj: Obj) -> list[Cause]:
        found: list[Cause] = Causes()
        rules = obj.get("rules") or ()
        if len(rules) > RULES_MAX:
            found.append(causes.too_many("rules", len(rules), RULES_MAX))
        for index, rule in enumerate(rules):
            _check_rule(found, rule, f"rules[{index}]", namespaced=self._namespaced)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            _check_aggregation(found, aggregation.get("clusterRoleSelectors") or [])
        return found


def _check_aggregation(found: list[Cause], selectors: list[Obj]) -> None:
    field = "aggregationRule.clusterRoleSelectors"
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        found.append(causes.required(field, detail))
    for index, selector in enumerate(selectors):
        check_selector(found, selector, f"{field}[{index}]")


def _check_rule(found: list[Cause], rule: Obj, field: str, *, namespaced: bool) -> None:
    if not rule.get("verbs"):
        found.append(causes.required(f"{field}.verbs", "verbs must contain at least one value"))
    urls, where = rule.get("nonResourceURLs"), f"{field}.nonResourceURLs"
    if urls:
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            found.append(causes.invalid(where, urls, detail))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(causes.invalid(where, urls, detail))
        return
    if not rule.get("apiGroups"):
        detail = "resource rules must supply at least one api group"
        found.append(causes.required(f"{field}.apiGroups", detail))
    if not rule.get("resources"):
        detail = "resource rules must supply at least one resource"
        found.append(causes.required(f"{field}.resources", detail))


class RoleBindingStrategy(Strategy):
    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced
        self._role_kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def default(self, obj: Obj) -> None:
        """Subjects that are users or groups get RBAC's API group; service accounts do not."""
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
                subject["apiGroup"] = GROUP

    def validate_create(self, obj: Obj) -> list[Cause]:
        found: list[Cause] = Causes()
        ref = obj.get("roleRef") or {}
        group, kind, name = ref.get("apiGroup", ""), ref.get("kind", ""), ref.get("name", "")
        if group != GROUP:
            found.append(causes.not_supported("roleRef.apiGroup", group, (GROUP,)))
        if kind not in self._role_kinds:
            found.append(causes.not_supported("roleRef.kind", kind, self._role_kinds))
        if not name:
            found.append(causes.required("roleRef.name"))
        else:
            found += causes.each("roleRef.name", name, formats.path_segment(name))
        for index, subject in enumerate(obj.get("subjects") or ()):
            _check_subject(found, subject, f"subjects[{index}]", namespaced=self._namespaced)
        return found

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        found = self.validate_create(obj)
        if not same(obj.get("roleRef"), old.get("roleRef")):
            found.append(causes.invalid("roleRef", obj.get("roleRef"), causes.IMMUTABLE))
        return found


def _check_subject(found: list[Cause], subject: Obj, field: str, *, namespaced: bool) -> None:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        found.append(causes.required(f"{field}.name"))
    if kind == "ServiceAccount":
        if name:
            found += causes.each(f"{field}.name", name, formats.dns_subdomain(name))
        if group:
            found.append(causes.not_supported(f"{field}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(causes.required(f"{field}.namespace"))
    elif kind in {"User", "Group"}:
        if group != GROUP:
            found.append(causes.not_supported(f"{field}.apiGroup", group, (GROUP,)))
    else:
        found.append(causes.not_supported(f"{field}.kind", kind, _SUBJECT_KINDS))
