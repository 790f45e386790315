"""Rules of PodDisruptionBudgets."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.selectors import check_selector
from fathom.kube.rules.workloads.shared import check_counts, check_int_or_percent, check_up_to_all
from fathom.model import causes
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj

_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_STATUS_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudgetRules(KindRules):
    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = dict.fromkeys(_STATUS_COUNTS, 0)

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj.get("spec") or {}
        if "minAvailable" in spec and "maxUnavailable" in spec:
            detail = "minAvailable and maxUnavailable cannot be both set"
            problems.append(causes.invalid("spec", spec, detail))
        for name in ("minAvailable", "maxUnavailable"):
            if name in spec:
                check_int_or_percent(problems, spec[name], f"spec.{name}")
                check_up_to_all(problems, spec[name], f"spec.{name}")
        check_selector(problems, spec.get("selector"), "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _EVICTION_POLICIES:
            where = "spec.unhealthyPodEvictionPolicy"
            problems.append(causes.not_supported(where, policy, _EVICTION_POLICIES))
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        check_counts(problems, obj.get("status") or {}, _STATUS_COUNTS, "status")
        return problems
