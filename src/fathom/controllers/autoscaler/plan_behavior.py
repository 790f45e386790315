"""How fast an autoscaler may scale: stabilization windows and policies. Pure.

The defaults are Kubernetes': up at once, by four pods or to twice as many within 15 s; down to the highest
recommendation of the last five minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

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

    def with_recommendation(self, now_s: float, replicas: int) -> History:
        kept = tuple(
            recommendation for recommendation in self.recommendations if now_s - recommendation.at_s <= KEEP_S
        )
        return History((*kept, WantedReplicas(now_s, replicas)), self.steps)

    def shifted(self, by_s: float) -> History:
        """The same on another clock, which is this much ahead."""
        return History(
            tuple(
                WantedReplicas(round(recommendation.at_s + by_s, 3), recommendation.replicas)
                for recommendation in self.recommendations
            ),
            tuple(ScaleStep(round(step.at_s + by_s, 3), step.change) for step in self.steps),
        )

    def stepped(self, now_s: float, change: int) -> History:
        kept = tuple(step for step in self.steps if now_s - step.at_s <= KEEP_S)
        return History(self.recommendations, (*kept, ScaleStep(now_s, change)))


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


def longest_period_s(autoscaler: Obj) -> int:
    rules = rules_of(autoscaler, "scaleUp", UP)
    return max((int(policy["periodSeconds"]) for policy in rules["policies"]), default=0)
