"""Whether a workload's own controller has observed its newest generation, for WorkloadProgress.

A controller that has not for long is behind, or is not running; the workload does not show which. The
condition is written only once this has lasted.
"""

from __future__ import annotations

import msgspec

from fathom.model.conditions import find_condition, set_condition
from fathom.model.objects import Key, Obj, lookup, metadata

OBSERVED = "Observed"  # Condition of a WorkloadProgress.
# Healthy controllers answer within a second; a change of leader takes some.
BEHIND_S = 30.0


class _Since(msgspec.Struct, frozen=True):
    generation: int
    seen_ns: int


class GenerationBehind:
    """Since when each workload's generation waits to be observed, as this process sees it."""

    def __init__(self) -> None:
        self._since: dict[Key, _Since] = {}

    def wait_s(self, key: Key, workload: Obj, *, now_ns: int) -> float | None:
        """In how long it counts as behind: 0 or less is now. None: it is not behind."""
        generation = int(metadata(workload).get("generation") or 0)
        observed = lookup(workload, "status", "observedGeneration")
        if observed is None or int(observed) >= generation:
            self._since.pop(key, None)
            return None
        since = self._since.get(key)
        if since is None or int(observed) >= since.generation:
            since = self._since[key] = _Since(generation, now_ns)
        return BEHIND_S - (now_ns - since.seen_ns) / 1e9

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)


def with_observed(conditions: list[Obj], workload: Obj, *, behind: bool, now: str) -> list[Obj]:
    """No condition is written for a workload whose controller was never behind."""
    if not behind and find_condition(conditions, OBSERVED) is None:
        return conditions
    generation, observed = (
        metadata(workload).get("generation"),
        lookup(workload, "status", "observedGeneration"),
    )
    why = (
        f"its controller has observed generation {observed}, but the newest is {generation}" if behind else ""
    )
    return set_condition(
        conditions,
        type=OBSERVED,
        status="False" if behind else "True",
        reason="ControllerBehind" if behind else "UpToDate",
        message=why,
        observed_generation=generation,
        now=now,
    )
