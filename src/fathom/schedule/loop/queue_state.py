"""The scheduling queue in words: how many pods wait in which state, each pod's place, and who is ahead of it.

The scheduler answers with it when it is asked (`endpoint/`); nothing here changes the queue.
"""

from __future__ import annotations

from typing import Any

from fathom.schedule.loop.pod_moves import QueueReader
from fathom.schedule.loop.queue import QueueEntry

# Of the pods ahead of one, the next so many are named; the others are counted.
AHEAD_NAMED = 20


def queue_state(queue: QueueReader, about: tuple[str, ...], now_ns: int) -> dict[str, Any]:
    """`about`: UIDs of pods. Times are seconds from now."""
    ordered = queue.in_order()
    places = {entry.pod.uid: place for place, entry in enumerate(ordered)}
    pods = {}
    for uid in about:
        if (entry := queue.entry(uid)) is not None:
            pods[uid] = _pod_state(entry, places.get(uid), ordered, now_ns)
    counts = {state: count for state, count in queue.counts.items() if count}
    return {"counts": counts, "active": len(ordered), "pods": pods}


def _pod_state(
    entry: QueueEntry, place: int | None, ordered: list[QueueEntry], now_ns: int
) -> dict[str, Any]:
    state: dict[str, Any] = {
        "state": entry.state,
        "attempts": entry.attempt,
        "failures": entry.failures,
        "waitingS": round((now_ns - entry.added_ns) / 1e9, 3),
        "inStateS": round((now_ns - entry.since_ns) / 1e9, 3),
        "cause": entry.cause.text,
    }
    if entry.pod.raised_by:
        state |= {"priority": entry.pod.priority, "raisedBy": entry.pod.raised_by}
    if entry.waits:
        state["waitsFor"] = list(entry.waits)
    if entry.due_ns:
        state["retriedInS"] = round((entry.due_ns - now_ns) / 1e9, 3)
    if place is not None:
        state |= {"place": place + 1, "of": len(ordered)}
        state["ahead"] = [_ahead(other) for other in ordered[max(0, place - AHEAD_NAMED) : place]]
    return state


def _ahead(entry: QueueEntry) -> dict[str, Any]:
    pod = entry.pod
    return {
        "namespace": pod.key.namespace,
        "name": pod.key.name,
        "uid": pod.uid,
        "tenant": pod.tenant,
        "priority": pod.priority,
    }
