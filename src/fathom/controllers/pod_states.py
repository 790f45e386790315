"""What a pod's status means to workload controllers: live, ready, available. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from fathom.control.ownership import controller_of
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, is_deleting, lookup, metadata
from fathom.model.reasons import is_rejection
from fathom.model.times import SECOND_NS, moment_ns

SUCCEEDED, FAILED = "Succeeded", "Failed"
ENDED = frozenset({SUCCEEDED, FAILED})

ORPHANS = "orphans"  # An index: objects without a controller, by namespace.


def by_orphan(obj: Obj) -> tuple[str, ...]:
    """Controllers look for orphans to adopt in this index, instead of listing all objects."""
    return () if controller_of(obj) is not None else (str(metadata(obj).get("namespace") or ""),)


def phase_of(pod: Obj) -> str:
    return str(lookup(pod, "status", "phase") or "")


def has_ended(pod: Obj) -> bool:
    return phase_of(pod) in ENDED


def is_rejected(pod: Obj) -> bool:
    """Its node had no room for it, or was not the right one: none of its containers was started."""
    return phase_of(pod) == FAILED and is_rejection(str(lookup(pod, "status", "reason") or ""))


def is_active(pod: Obj) -> bool:
    """It runs or will run: neither terminating nor ended."""
    return not is_deleting(pod) and not has_ended(pod)


def is_terminating(pod: Obj) -> bool:
    """Being deleted, and still there."""
    return is_deleting(pod) and not has_ended(pod)


def is_ready(pod: Obj) -> bool:
    """As Kubernetes' controllers read it, whatever generation the condition is about."""
    condition = find_condition(conditions_of(pod), "Ready")
    return condition is not None and condition.get("status") == "True"


def ready_since_s(pod: Obj) -> float | None:
    """Seconds since the epoch; None if it is not ready."""
    condition = find_condition(conditions_of(pod), "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    return seconds(condition.get("lastTransitionTime"))


def available_in_s(pod: Obj, *, min_ready_s: int, now_s: float) -> float | None:
    """In how long it will have been ready for long enough: 0 is now, None while it is not ready. Never longer
    than `min_ready_s`, whatever the clocks say: the pod is ready now, and nobody looks again in between."""
    since_s = ready_since_s(pod)
    return None if since_s is None else min(float(min_ready_s), max(0.0, since_s + min_ready_s - now_s))


def is_available(pod: Obj, *, min_ready_s: int, now_s: float) -> bool:
    return available_in_s(pod, min_ready_s=min_ready_s, now_s=now_s) == 0.0


def next_available_s(pods: Iterable[Obj], *, min_ready_s: int, now_s: float) -> float | None:
    """In how long the next ready pod becomes available. No event announces that, only time."""
    waits = (available_in_s(pod, min_ready_s=min_ready_s, now_s=now_s) for pod in pods)
    return min((wait for wait in waits if wait), default=None)


@lru_cache(maxsize=4096)
def _seconds(text: str) -> float:
    return (moment_ns(text) or 0) / SECOND_NS


def seconds(text: object) -> float:
    """A timestamp as seconds since the epoch. An invalid one counts as long ago."""
    return _seconds(text) if isinstance(text, str) else 0.0


def created_s(obj: Obj) -> float:
    return seconds(metadata(obj).get("creationTimestamp"))


def restarts_of(pod: Obj) -> int:
    statuses = lookup(pod, "status", "containerStatuses") or ()
    return max((int(container.get("restartCount") or 0) for container in statuses), default=0)
