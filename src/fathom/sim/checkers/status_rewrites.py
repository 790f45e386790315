"""No object is written again and again only because numbers in its messages changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum

from fathom.model.conditions import conditions_of
from fathom.model.objects import Obj, uid_of
from fathom.model.well_known import FENCE_HEADER
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.invariants import Checker, Found, Seen

# A person who reads a status does not need its numbers more often, and every write wakes all watchers.
ONCE_IN_S = 60.0

# Written to be renewed: leases, and Events that count how often something happened.
RENEWED = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io"})
# These change with every write.
BOOKKEEPING = frozenset({"resourceVersion", "managedFields"})
# The number at the end of an object's name does not count: a message about another pod is a real change.
NUMBER = re.compile(r"(?<![a-z0-9]-)(?<!\d)\d+")
# Times of the last update are no real change either. A node's heartbeat is: node health depends on it.
TIMES = frozenset({"lastUpdateTime", "lastProbeTime", "lastTransitionTime", "time"})


class StatusIsNotRewritten(Checker):
    name = "a status is not rewritten only for the numbers in its messages"

    def __init__(self) -> None:
        # By UID, process, term and conditions: when it was last written for their numbers alone. A new leader
        # does not know when the last one did; a controller and its loop each have a condition of their own.
        self._written_s: dict[tuple[str, str, str, frozenset[str]], float] = {}

    def commit(self, change: Seen) -> Found:
        old, new = change.old, change.new
        if old is None or new is None or change.resource in RENEWED or not differs_in_numbers(old, new):
            return None
        if change.by == DRIVER:  # A scenario may stand in for a gateway, whose probes have times.
            return None
        at = (uid_of(new), change.by, dict(change.headers).get(FENCE_HEADER, ""), _reworded(old, new))
        before_s, self._written_s[at] = self._written_s.get(at), change.at_s
        if before_s is None or change.at_s - before_s >= ONCE_IN_S:
            return None
        since_s = change.at_s - before_s
        return (
            f"{change.by} rewrote {change.path} for numbers alone, {since_s:.1f} s after the last such write"
        )


def _reworded(old: Obj, new: Obj) -> frozenset[str]:
    """The conditions whose messages differ."""
    before, after = (
        {(str(condition.get("type")), str(condition.get("message"))) for condition in conditions_of(obj)}
        for obj in (old, new)
    )
    return frozenset(type_ for type_, _ in before ^ after)


def differs_in_numbers(old: Obj, new: Obj) -> bool:
    """Whether all that differs between two states of an object is numbers in messages, and times."""
    return old.get("spec") == new.get("spec") and _compared(old, new) is Difference.NUMBERS


class Difference(Enum):
    NONE = 0
    NUMBERS = 1
    MORE = 2


def _compared(old: object, new: object, name: str = "") -> Difference:
    if old is new or name in BOOKKEEPING or old == new:
        return Difference.NONE
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = (*old, *(field for field in new if field not in old))
        return _most((old.get(field), new.get(field), field) for field in names)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return _most((*pair, "") for pair in zip(old, new, strict=True))
    if isinstance(old, str) and isinstance(new, str):
        same = name in TIMES or (name == "message" and NUMBER.sub("", old) == NUMBER.sub("", new))
        return Difference.NUMBERS if same else Difference.MORE
    return Difference.MORE


def _most(parts: Iterable[tuple[object, object, str]]) -> Difference:
    """Stops at the first part that differs in more than numbers, as most writes do."""
    result = Difference.NONE
    for old, new, name in parts:
        difference = _compared(old, new, name)
        if difference is Difference.MORE:
            return difference
        result = difference if result is Difference.NONE else result
    return result
