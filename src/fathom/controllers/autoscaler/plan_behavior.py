"""How fast an autoscaler may scale: stabilization windows and policies. Pure.

The defaults are Kubernetes': up at once, by four pods or to twice as many within 15 s; down to the highest
recommendation of the last five minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from fathom.model.objects import Obj, lookup

UP: Obj = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
DOWN: Obj = {
    "stabilizationWindowSeconds": 300,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
KEEP_S = 3600.0  # No window or period is longer.
NOTED_MAX = 4  # A status write of unknown outcome may show any of the last tries; older ones are overwritten.


class WantedReplicas(msgspec.Struct, frozen=True):
    at_s: float
    replicas: int


class ScaleStep(msgspec.Struct, frozen=True):
    at_s: float
    change: int


class History(msgspec.Struct, frozen=True):
    """Earlier recommendations and steps. Kept per process: a new process begins with the present size, and
    holds that for a window."""

    recommendations: tuple[WantedReplicas, ...] = ()
    steps: tuple[ScaleStep, ...] = ()
    noted: tuple[str, ...] = ()  # What this process last wrote as `lastScaleTime`, as text: clocks are set.
    unsure_from: int | None = None  # The size before a step that failed, or whose outcome is unknown.

    def with_recommendation(self, now_s: float, replicas: int) -> History:
        kept = tuple(
            recommendation for recommendation in self.recommendations if now_s - recommendation.at_s <= KEEP_S
        )
        return replace(self, recommendations=(*kept, WantedReplicas(now_s, replicas)))

    def shifted(self, by_s: float) -> History:
        """The same on another clock, which is this much ahead."""
        return replace(
            self,
            recommendations=tuple(
                WantedReplicas(round(recommendation.at_s + by_s, 3), recommendation.replicas)
                for recommendation in self.recommendations
            ),
            steps=tuple(ScaleStep(round(step.at_s + by_s, 3), step.change) for step in self.steps),
        )

    def with_note(self, now: str) -> History:
        return replace(self, noted=(*self.noted, now)[-NOTED_MAX:])

    def stepped(self, now_s: float, change: int) -> History:
        kept = tuple(step for step in self.steps if now_s - step.at_s <= KEEP_S)
        return replace(self, steps=(*kept, ScaleStep(now_s, change)), unsure_from=None)

    def unsure(self, size: int) -> History:
        """A step from this size failed, or its outcome is unknown: its request may still be on its way."""
        return replace(self, unsure_from=size if self.unsure_from is None else self.unsure_from)

    def seen(self, now_s: float, size: int) -> History:
        """The step of unknown outcome was made if the size is another now: no earlier than was seen here."""
        if self.unsure_from is None or size == self.unsure_from:
            return self
        return self.stepped(now_s, size - self.unsure_from)


def rules_of(autoscaler: Obj, field: str, defaults: Obj) -> Obj:
    rules = lookup(autoscaler, "spec", "behavior", field) or {}
    return {**defaults, **{name: value for name, value in rules.items() if value is not None}}


def stabilized(autoscaler: Obj, history: History, recommended: int, current: int, now_s: float) -> int:
    """Up only to the lowest, down only to the highest recommendation within the window."""
    up_s = int(rules_of(autoscaler, "scaleUp", UP)["stabilizationWindowSeconds"])
    down_s = int(rules_of(autoscaler, "scaleDown", DOWN)["stabilizationWindowSeconds"])
    lows = [earlier.replicas for earlier in history.recommendations if now_s - earlier.at_s < up_s]
    highs = [earlier.replicas for earlier in history.recommendations if now_s - earlier.at_s < down_s]
    low, high = min([recommended, *lows]), max([recommended, *highs])
    return low if current < low else high if current > high else current


def most(autoscaler: Obj, history: History, current: int, now_s: float) -> int:
    """The largest size that the scale-up policies allow now."""
    rules = rules_of(autoscaler, "scaleUp", UP)
    if rules.get("selectPolicy") == "Disabled":
        return current
    limits = [_most(policy, history.steps, current, now_s) for policy in rules["policies"]]
    chosen = min(limits) if rules.get("selectPolicy") == "Min" else max(limits)
    return max(current, chosen)


def _most(policy: Obj, steps: Sequence[ScaleStep], current: int, now_s: float) -> int:
    base = _base(policy, steps, current, now_s)
    if policy["type"] == "Pods":
        return base + int(policy["value"])
    return base + -(-base * int(policy["value"]) // 100)


def least(autoscaler: Obj, history: History, current: int, now_s: float) -> int:
    rules = rules_of(autoscaler, "scaleDown", DOWN)
    if rules.get("selectPolicy") == "Disabled":
        return current
    limits = [_least(policy, history.steps, current, now_s) for policy in rules["policies"]]
    chosen = max(limits) if rules.get("selectPolicy") == "Min" else min(limits)
    return min(current, max(0, chosen))


def _least(policy: Obj, steps: Sequence[ScaleStep], current: int, now_s: float) -> int:
    base = _base(policy, steps, current, now_s)
    if policy["type"] == "Pods":
        return base - int(policy["value"])
    # A tenth of five is one: rounded down, a few pods would never become fewer.
    return base - -(-base * int(policy["value"]) // 100)


def _base(policy: Obj, steps: Sequence[ScaleStep], current: int, now_s: float) -> int:
    """The size when the policy's period began."""
    recent = [step for step in steps if now_s - step.at_s < int(policy["periodSeconds"])]
    return current - sum(step.change for step in recent)


def longest_period_s(autoscaler: Obj, field: str, defaults: Obj) -> int:
    rules = rules_of(autoscaler, field, defaults)
    return max((int(policy["periodSeconds"]) for policy in rules["policies"]), default=0)
