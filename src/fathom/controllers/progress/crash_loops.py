"""Pods whose containers crash repeatedly: since when, and until when they count as crash-looping. Pure.

    runs ──ends──> waits ──restarts──> runs for a moment, and is ready ──ends──> waits, for longer …

Between two crashes the pod looks ready, but it is no better for that. So a pod counts as running well again
only when it has run for as long as the back-off between its restarts lasts. A pod's status does not show when
the first crash was; the WorkloadProgress keeps that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fathom.controllers.pod_states import created_s, seconds
from fathom.model.backoff import Backoff
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.reasons import CLUSTER_STOPPED

CRASH_LOOP = "CrashLoopBackOff"

# After each further restart it has to run for 20, 40, 80 … seconds, and at most for the ten minutes after
# which kubelet forgets the restarts.
STABLE = Backoff(20.0, 600.0)


class CrashLoop(msgspec.Struct, frozen=True):
    since_s: float
    until_s: float | None  # When it counts as running well if it keeps running; None: it does not run.
    message: str = ""


def crash_loop(pod: Obj, *, now_s: float) -> CrashLoop | None:
    """None: none of its containers crashes, or they have run for long enough."""
    loops = [
        loop
        for field in ("initContainerStatuses", "containerStatuses")
        for container in lookup(pod, "status", field) or ()
        if (loop := _of_container(pod, container, now_s)) is not None
    ]
    return min(loops, key=lambda loop: loop.since_s) if loops else None


def _of_container(pod: Obj, container: Obj, now_s: float) -> CrashLoop | None:
    ended = lookup(container, "state", "terminated") or lookup(container, "lastState", "terminated") or {}
    if ended.get("reason") == CLUSTER_STOPPED:
        return None
    since_s = seconds(ended.get("finishedAt")) or now_s
    name, code = container.get("name"), ended.get("exitCode", "?")
    message = f"{metadata(pod)['name']}: container {name} exited with code {code}"
    waiting = lookup(container, "state", "waiting") or {}
    if waiting.get("reason") == CRASH_LOOP or lookup(container, "state", "terminated", "exitCode"):
        return CrashLoop(since_s, None, message)
    started = lookup(container, "state", "running", "startedAt")
    if not started or not ended or not _was_short(ended):
        return None
    until_s = seconds(started) + stable_s(int(container.get("restartCount") or 0))
    return CrashLoop(since_s, until_s, message) if now_s < until_s else None


def stable_s(restarts: int) -> float:
    """How long a container has to run after this many restarts."""
    return STABLE.whole_s(restarts) if restarts > 0 else 0.0


def _was_short(ended: Obj) -> bool:
    """A container that ran for long before it ended is not in a loop, however often that has happened."""
    return seconds(ended.get("finishedAt")) - seconds(ended.get("startedAt")) < STABLE.s_max


def loops_of(pods: Sequence[Obj], *, kept: Iterable[str | None] = (), now_s: float) -> dict[str, CrashLoop]:
    """Crash-looping pods by UID, all since the first of them began. `kept`: the recorded start of the loop;
    it counts if one of these pods existed then."""
    loops = {
        str(metadata(pod)["uid"]): loop for pod in pods if (loop := crash_loop(pod, now_s=now_s)) is not None
    }
    if not loops:
        return {}
    oldest_s = min(created_s(pod) for pod in pods if metadata(pod)["uid"] in loops)
    recorded_s = [seconds(stamp) for stamp in kept if stamp]
    since_s = min(
        [
            *(start_s for start_s in recorded_s if start_s >= oldest_s),
            *(loop.since_s for loop in loops.values()),
        ]
    )
    return {uid: msgspec.structs.replace(loop, since_s=since_s) for uid, loop in loops.items()}
