"""Rules of Deployments."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules
from fathom.kube.rules.compare import check_fixed
from fathom.kube.rules.pod.defaults import default_template
from fathom.kube.rules.workloads.shared import (
    check_at_most,
    check_collisions,
    check_counts,
    check_int_or_percent,
    check_selected_template,
    check_up_to_all,
    int_or_percent,
)
from fathom.model import causes
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj

_STRATEGIES = ("Recreate", "RollingUpdate")
_STATUS_COUNTS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)


class DeploymentRules(KindRules):
    template = ("spec", "template")

    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        strategy = spec.setdefault("strategy", {"type": "RollingUpdate"})
        if strategy.get("type") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        default_template(spec.get("template") or {})

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj["spec"]
        check_counts(problems, spec, ("replicas",), "spec")
        check_selected_template(problems, spec, "ReplicaSet", empty_for="deployment")
        _check_strategy(problems, spec.get("strategy") or {})
        check_counts(problems, spec, ("minReadySeconds", "revisionHistoryLimit"), "spec")
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None:
            check_counts(problems, spec, ("progressDeadlineSeconds",), "spec")
            if deadline <= spec.get("minReadySeconds", 0):
                where = "spec.progressDeadlineSeconds"
                problems.append(causes.invalid(where, deadline, "must be greater than minReadySeconds"))
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = self.validate_create(obj)
        check_fixed(problems, obj["spec"], old, "selector")
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        status = obj.get("status") or {}
        check_counts(problems, status, _STATUS_COUNTS, "status")
        check_at_most(problems, status, ("updatedReplicas", "readyReplicas", "availableReplicas"), "replicas")
        check_at_most(problems, status, ("availableReplicas",), "readyReplicas")
        check_collisions(problems, status, old.get("status") or {})
        return problems


def _check_strategy(problems: list[Cause], strategy: Obj) -> None:
    kind, rolling = strategy.get("type", "RollingUpdate"), strategy.get("rollingUpdate")
    field = "spec.strategy"
    if kind == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            problems.append(causes.forbidden(f"{field}.rollingUpdate", detail))
    elif kind == "RollingUpdate":
        _check_rolling(problems, rolling or {}, f"{field}.rollingUpdate")
    else:
        problems.append(causes.not_supported(field, strategy, _STRATEGIES))


def _check_rolling(problems: list[Cause], rolling: Obj, field: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", "25%"), rolling.get("maxSurge", "25%")
    check_int_or_percent(problems, unavailable, f"{field}.maxUnavailable")
    check_int_or_percent(problems, surge, f"{field}.maxSurge")
    if int_or_percent(unavailable) == 0 and int_or_percent(surge) == 0:
        detail = "may not be 0 when `maxSurge` is 0"
        problems.append(causes.invalid(f"{field}.maxUnavailable", unavailable, detail))
    check_up_to_all(problems, unavailable, f"{field}.maxUnavailable")
