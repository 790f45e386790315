"""A Job is marked finished only when none of its pods runs any more, terminating ones included."""

from __future__ import annotations

from fathom.model.objects import Obj, lookup, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.sim.checkers.workloads import JOBS, PODS, owner_uid
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

OVER = frozenset({"Complete", "Failed"})


class OverWhenNothingRuns(Checker):
    """A client that waits for a Job may then use what it worked on. A pod whose create arrives after its
    sender gave up on it does not count: no controller knows of it."""

    name = "a finished Job has no running pods"
    resources = frozenset({PODS, JOBS})

    def __init__(self) -> None:
        self._running: dict[str, dict[str, None]] = {}  # Job's UID -> names of pods that have not ended.

    def commit(self, change: Seen) -> Found:
        if change.resource == PODS:
            self._follow(change)
            return None
        if change.new is None or not _is_over(change.new) or _is_over(change.old):
            return None
        running = self._running.get(uid_of(change.new))
        if not running:
            return None
        paths = tuple(f"{PODS}/{change.key.namespace}/{name}" for name in running)
        return Finding(f"Job {change.key.name} is marked finished, but {', '.join(running)} still run", paths)

    def _follow(self, change: Seen) -> None:
        running = self._running.setdefault(owner_uid(change.new or change.old or {}), {})
        if change.new is None or lookup(change.new, "status", "phase") in TERMINAL_PHASES:
            running.pop(change.key.name, None)
        elif change.old is not None or not change.late:
            running[change.key.name] = None


def _is_over(job: Obj | None) -> bool:
    conditions = lookup(job, "status", "conditions") or ()
    return any(
        condition.get("type") in OVER and condition.get("status") == "True" for condition in conditions
    )
