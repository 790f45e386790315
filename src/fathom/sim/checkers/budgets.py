"""Each eviction is charged to its budget as it is now, and no budget allows more than pods were healthy
lately."""

from __future__ import annotations

from fathom.model.objects import Key, Obj, is_deleting, labels_of, lookup, metadata
from fathom.model.resource_names import BUDGETS
from fathom.model.selectors import LabelSelector
from fathom.sim.world.invariants import Checker, Found, Seen

# `disruptionsAllowed` is raised from a cache that is at most ten seconds old; the write itself takes a while.
FRESH_S = 20.0


class EvictionsAreAllowed(Checker):
    name = "no eviction beyond its budget"
    resources = frozenset({"pods", BUDGETS})

    def __init__(self) -> None:
        self._pods: dict[Key, Obj] = {}
        self._budgets: dict[Key, Obj] = {}
        self._healthy: dict[Key, list[tuple[float, int]]] = {}  # Budget -> (when, healthy pods), recent ones.

    def commit(self, change: Seen) -> Found:
        if change.resource == BUDGETS:
            problem = self._raised(change) or _charged_too_soon(change)
            _keep(self._budgets, change.key, change.new)
            self._note(change)
            return problem
        problem = self._evicted(change)
        _keep(self._pods, change.key, change.new)
        if _is_healthy(change.old) != _is_healthy(change.new):
            self._note(change)
        return problem

    def _note(self, change: Seen) -> None:
        """Record how many pods are healthy, and keep it for as long as a cache may be old."""
        for key, budget in self._budgets.items():
            if key.namespace == change.key.namespace:
                healthy = sum(_is_healthy(pod) for pod in self._covered(key, budget))
                lately = self._healthy.setdefault(key, [])
                lately.append((change.at_s, healthy))
                while len(lately) > 1 and lately[1][0] < change.at_s - FRESH_S:
                    del lately[0]

    def _covered(self, key: Key, budget: Obj) -> list[Obj]:
        selector = LabelSelector.from_object(lookup(budget, "spec", "selector") or {})
        return [
            pod
            for pod_key, pod in self._pods.items()
            if pod_key.namespace == key.namespace and selector.matches(labels_of(pod))
        ]

    def _raised(self, change: Seen) -> Found:
        allowed = int(lookup(change.new, "status", "disruptionsAllowed") or 0)
        before = int(lookup(change.old, "status", "disruptionsAllowed") or 0)
        least = lookup(change.new, "spec", "minAvailable")
        if allowed <= before or not isinstance(least, int):
            return None
        most = max((healthy for _, healthy in self._healthy.get(change.key, ())), default=0)
        if allowed <= max(0, most - least):
            return None
        return f"it allows {allowed}, but at most {most} pods were healthy lately and minAvailable is {least}"

    def _evicted(self, change: Seen) -> Found:
        ask, old = change.ask, change.old
        if ask is None or old is None or not ask.target.partition("?")[0].endswith("/eviction"):
            return None
        goes = change.new is None or (is_deleting(change.new) and not is_deleting(old))
        if not goes or not _is_healthy(old) or lookup(old, "status", "phase") != "Running":
            return None
        for key, budget in self._budgets.items():
            if key.namespace != change.key.namespace or old not in self._covered(key, budget):
                continue
            if change.key.name not in (lookup(budget, "status", "disruptedPods") or {}):
                return f"{change.by} evicted {change.key.name}, but its budget {key.name} was not charged"
        return None


def _charged_too_soon(change: Seen) -> Found:
    """What a budget allows was counted for its present spec: it may have become stricter."""
    if change.old is None or change.new is None:
        return None
    before, after = (lookup(budget, "status", "disruptedPods") or {} for budget in (change.old, change.new))
    evicted = sorted(after.keys() - before.keys())
    counted, edited = (
        lookup(change.old, "status", "observedGeneration"),
        metadata(change.old).get("generation"),
    )
    if not evicted or counted == edited:
        return None
    return f"{evicted[0]} was evicted by what generation {counted} allowed; the budget is at {edited}"


def _is_healthy(pod: Obj | None) -> bool:
    if pod is None or is_deleting(pod):
        return False
    conditions = lookup(pod, "status", "conditions") or ()
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
    )


def _keep(kept: dict[Key, Obj], key: Key, obj: Obj | None) -> None:
    if obj is None:
        kept.pop(key, None)
    else:
        kept[key] = obj
