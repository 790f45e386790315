"""What nodes have taught us: starts that fail on one node again and again are the node's fault.

A failed start costs trust, a good one gives some back, time gives back the rest. Less trust is a lower score;
none is a quarantine, visible as the node's reason and lifted by time or by hand. One workload that fails
everywhere is its own fault: it costs a node at most once until the node has failed another.
"""

from __future__ import annotations

import msgspec

from fathom.schedule.context import QUARANTINED

# Four different workloads failing within the half-life are a quarantine; two already come last.
FAILED_COSTS = 30
STARTED_GIVES = 15
HALF_LIFE_S = 600
# A quarantined node is tried again when this much is left: trust comes back slowly, not with one good start.
FORGIVEN = 5


class Lost(msgspec.Struct, frozen=True):
    """Trust that a node has lost, as of a moment."""

    points: int = 0
    at_s: int = 0
    blamed: tuple[str, ...] = ()  # Workloads that failed there, since it was last trusted in full.


def after_failure(lost: Lost, workload: str, *, now_s: int) -> Lost:
    """A pod of the workload did not start there."""
    now = faded(lost, now_s=now_s)
    if workload in now.blamed and len(now.blamed) == 1:
        return msgspec.structs.replace(now, at_s=now_s)
    points = min(QUARANTINED, now.points + FAILED_COSTS)
    return Lost(points, now_s, tuple(sorted({*now.blamed, workload})))


def after_start(lost: Lost, *, now_s: int) -> Lost:
    now = faded(lost, now_s=now_s)
    points = max(0, now.points - STARTED_GIVES)
    return Lost(points, now_s, now.blamed if points else ())


def faded(lost: Lost, *, now_s: int) -> Lost:
    """What is left of it by now: half after each half-life, in whole numbers."""
    halves, rest_s = divmod(max(0, now_s - lost.at_s), HALF_LIFE_S)
    left = lost.points >> min(halves, 32)
    left -= left * rest_s // (2 * HALF_LIFE_S)
    return Lost(left, now_s, lost.blamed) if left > FORGIVEN else Lost(0, now_s)
