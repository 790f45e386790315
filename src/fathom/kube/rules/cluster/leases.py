"""Rules of Leases."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj

_STRATEGIES = ("OldestEmulationVersion",)


class LeaseRules(KindRules):
    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj.get("spec") or {}
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            problems.append(causes.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        problems += causes.not_negative("spec.leaseTransitions", spec.get("leaseTransitions"))
        strategy = spec.get("strategy")
        if strategy is not None:
            _check_strategy(problems, strategy)
        if spec.get("preferredHolder") and not strategy:
            detail = "may only be specified if `strategy` is defined"
            problems.append(causes.forbidden("spec.preferredHolder", detail))
        return problems


def _check_strategy(problems: list[Cause], strategy: str) -> None:
    field = "spec.strategy.strategy"
    if "/" in strategy:
        problems += causes.each(field, strategy, formats.qualified_name(strategy))
    elif strategy not in _STRATEGIES:
        problems.append(causes.not_supported(field, strategy, _STRATEGIES))
