"""WorkloadProgress says since when pods crash repeatedly: the time of the first crash, while it goes on."""

from __future__ import annotations

from fathom.model.objects import Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS, moment_ns
from fathom.sim.checkers.statuses import PROGRESS
from fathom.sim.world.invariants import Checker, Found, Seen

CRASH, CRASH_LOOP = "crash", "CrashLoopBackOff"  # In a WorkloadProgress; in a pod.
SHORT_S = 20.0  # Who runs for longer after its first restart is no longer in a loop.
ROUNDED_S = 2.0


class CrashLoopsKeepTheirStart(Checker):
    """As long as a pod that has crashed since then goes on crashing, after a few seconds each time, the
    recorded start of its crash loop does not become a later one."""

    name = "a crash loop keeps its start"
    resources = frozenset({"pods", PROGRESS})

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Obj]] = {}  # Name of the app -> UID -> its pods.
        self._since_s: dict[str, float] = {}  # UID of a pod -> its first crash, while it goes on crashing.

    def commit(self, change: Seen) -> Found:
        if change.resource == PROGRESS:
            return self._judge(change)
        pod = change.new or change.old or {}
        pods = self._pods.setdefault(_app(pod), {})
        pods.pop(uid_of(pod), None)
        if change.new is not None and not is_deleting(change.new):
            pods[uid_of(pod)] = change.new
            self._follow(change.new)
        return None

    def _follow(self, pod: Obj) -> None:
        container, *more = lookup(pod, "status", "containerStatuses") or ({},)
        ended = lookup(container, "state", "terminated") or lookup(container, "lastState", "terminated")
        running_s = _seconds(lookup(container, "state", "running", "startedAt"))
        if more or not ended or not ended.get("exitCode"):
            return
        began_s, crashed_s = _seconds(ended.get("startedAt")), _seconds(ended.get("finishedAt"))
        if crashed_s - began_s >= SHORT_S:
            self._since_s.pop(uid_of(pod), None)
        elif running_s <= crashed_s or uid_of(pod) not in self._since_s:
            self._since_s.setdefault(uid_of(pod), crashed_s)

    def _judge(self, change: Seen) -> Found:
        before, after = _start_s(change.old), _start_s(change.new)
        if before is None or after is None or after <= before + ROUNDED_S:
            return None
        for uid, pod in self._pods.get(str(lookup(change.new, "spec", "workload", "name")), {}).items():
            since_s, made_s = self._since_s.get(uid), _seconds(metadata(pod).get("creationTimestamp"))
            if since_s is None or made_s > before:
                continue  # The start was that of an older pod.
            if since_s <= before + ROUNDED_S and _waits(pod):
                name, moved_s = metadata(pod)["name"], after - before
                return f"{name} still crashes, but the start of its crash loop is now {moved_s:.0f} s later"
        return None


def _waits(pod: Obj) -> bool:
    """For its next restart."""
    statuses = lookup(pod, "status", "containerStatuses") or ()
    return any(lookup(each, "state", "waiting", "reason") == CRASH_LOOP for each in statuses)


def _start_s(progress: Obj | None) -> float | None:
    """What it says: for the current generation or the previous one."""
    said = [
        _seconds(reason.get("since"))
        for which in ("current", "previous")
        for reason in lookup(progress or {}, "status", which, "pendingReasons") or ()
        if reason.get("reason") == CRASH and reason.get("since")
    ]
    return min(said, default=None)


def _app(pod: Obj) -> str:
    return str(lookup(pod, "metadata", "labels", "app") or "")


def _seconds(stamp: object) -> float:
    return (moment_ns(stamp) or 0) / SECOND_NS
