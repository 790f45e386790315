"""Where a pod is on its way through the scheduler, and the moves between those places that are legal.

`LEGAL` is the whole truth: whoever moves a pod (the queue, `pod_moves`) asks `check_move` first, and nobody
else does. An illegal move raises, and nothing has changed then.

    new ──> gated ──> active ──> in-hand ──> sent ──> landed ──> seen
                        ^           │ └────┐   │ └──> withdrawn: not ours any more, its answer is to come
                        ├── parked <┘      v   v
                        └── backoff <──── refused

A pod may be seen on a node, or be gone, at any time: others bind and delete too. What is reserved for a pod,
and where it is nominated, is no state of its own: it waits all the same (see `reservations`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from fathom.model.invariant import InvariantBroken

PodState = Literal[
    "new",  # Not known here: not heard of yet, another scheduler's, or seen or gone before.
    "gated",  # Waits for its scheduling gates to be removed.
    "active",  # Waits for its turn.
    "backoff",  # Waits for a moment, after its binding was refused.
    "parked",  # Unschedulable: waits for an event that could help.
    "in-hand",  # Taken from the queue: being decided, or held back until room for it is reserved.
    "sent",  # Its binding is under way, and counted on its node.
    "refused",  # This attempt did not bind it: refused, fenced off, held back. At once it waits again.
    "withdrawn",  # Its binding is under way, but the pod is being deleted or another scheduler's by now.
    "landed",  # The server has bound it, and the cache does not show it yet.
    "seen",  # The cache shows it on a node, or finished. The end.
    "gone",  # Deleted, or another scheduler's. The end.
]


def _to(*states: PodState) -> frozenset[PodState]:
    return frozenset(states)


LEGAL: Mapping[PodState, frozenset[PodState]] = MappingProxyType(
    {
        "new": _to("gated", "active", "seen", "gone"),
        "gated": _to("gated", "active", "seen", "gone"),
        # To active again: its shape or priority has changed.
        "active": _to("active", "gated", "in-hand", "seen", "gone"),
        "backoff": _to("active", "gated", "seen", "gone"),
        "parked": _to("active", "gated", "seen", "gone"),
        "in-hand": _to("sent", "parked", "refused", "gated", "seen", "gone"),
        "sent": _to("landed", "refused", "withdrawn", "seen", "gone"),
        "refused": _to("active", "backoff", "gated", "seen", "gone"),
        # To sent again: it is ours again, and its answer still to come.
        "withdrawn": _to("sent", "seen", "gone"),
        # Never back to wait, whatever an older view shows: it is bound.
        "landed": _to("seen", "gone"),
        "seen": _to(),
        "gone": _to(),
    }
)

# In these the queue has an entry for the pod, and the pod has no node.
WAITING: frozenset[PodState] = frozenset(
    {"gated", "active", "backoff", "parked", "in-hand", "sent", "refused"}
)
# Taken from the queue and not put back: no event and no timer wakes it.
TAKEN: frozenset[PodState] = frozenset({"in-hand", "sent", "refused"})


class IllegalMove(InvariantBroken):
    """A pod was to become what it cannot become from where it is. Nothing was changed."""

    def __init__(self, before: PodState, after: PodState, pod: object) -> None:
        super().__init__(f"a pod that is {before} cannot become {after}: {pod}")
        self.before = before
        self.after = after


def check_move(before: PodState, after: PodState, pod: object) -> None:
    """`pod`: whatever is known of it, for the message."""
    if after not in LEGAL[before]:
        raise IllegalMove(before, after, pod)
