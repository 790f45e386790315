"""SchedulingPolicies and their rollouts."""

from __future__ import annotations

from fathom.api.strategy.base import Strategy
from fathom.api.strategy.own_capacity import items, mapping, text
from fathom.model import causes
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.own.policy import BUILT_IN, FILTERS_ALWAYS, FILTERS_OPTIONAL, SCORES
from fathom.model.own.times import duration_ns

FILTERS = (*FILTERS_ALWAYS, *FILTERS_OPTIONAL)
ALWAYS_ON = "cannot be switched off: the commit insists on it"
NO_DURATION = "must be a duration such as 30s, 45m or 1h30m"


def duration_causes(value: object, field: str) -> list[Cause]:
    if value is None or not isinstance(value, str) or duration_ns(value) is not None:
        return []
    return [causes.invalid(field, value, NO_DURATION)]


class SchedulingPolicyStrategy(Strategy):
    """One revision each. What a decision says it was made by must stay what it was."""

    def validate_create(self, obj: Obj) -> list[Cause]:
        if metadata(obj).get("name") == BUILT_IN:
            return [causes.invalid("metadata.name", BUILT_IN, "is the name of the built-in policy")]
        off = items(lookup(obj, "spec", "disabledFilters"))
        return [
            causes.invalid(f"spec.disabledFilters[{index}]", name, ALWAYS_ON)
            for index, name in enumerate(off)
            if name in FILTERS_ALWAYS
        ]

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        return causes.unchanged("spec", obj.get("spec"), old.get("spec"))

    def warnings(self, obj: Obj) -> list[str]:
        """Rules of others are known to the schedulers only: so a name that we do not know may be right."""
        spec = mapping(obj.get("spec"))
        named = (
            *(("spec.weights", name, SCORES) for name in mapping(spec.get("weights"))),
            *(("spec.filters", name, FILTERS) for name in items(spec.get("filters"))),
            *(("spec.disabledFilters", name, FILTERS) for name in items(spec.get("disabledFilters"))),
        )
        return [
            f"{field}: {name} is none of the built-in rules ({', '.join(known)});"
            " it means something only where a rule of that name is installed"
            for field, name, known in named
            if name not in known
        ]


class PolicyRolloutStrategy(Strategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        found: list[Cause] = Causes()
        spec = mapping(obj.get("spec"))
        if spec.get("from") and spec.get("from") == spec.get("to"):
            found.append(causes.invalid("spec.to", spec["to"], "must differ from spec.from"))
        before = 0
        for index, step in enumerate(items(spec.get("steps"))):
            field = f"spec.steps[{index}]"
            found += duration_causes(mapping(step).get("hold"), f"{field}.hold")
            percent = mapping(step).get("percent")
            if isinstance(percent, int):
                if percent < before:
                    found.append(causes.invalid(f"{field}.percent", percent, "must not go back"))
                before = percent
        found += duration_causes(lookup(spec, "gates", "signalsMaxAge"), "spec.gates.signalsMaxAge")
        return found

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        """Whom a rollout concerns and what it starts from and goes to stay: its status is about those."""
        found = self.validate_create(obj)
        for field in ("from", "to", "scope"):
            before = lookup(old, "spec", field)
            found += causes.unchanged(f"spec.{field}", lookup(obj, "spec", field), before)
        return found

    def warnings(self, obj: Obj) -> list[str]:
        steps = items(lookup(obj, "spec", "steps"))
        if steps and text(mapping(steps[-1]).get("hold")) and mapping(steps[-1]).get("percent") != 100:
            return ["spec.steps: the last step is not 100 percent: the rollout ends with a canary"]
        return []
