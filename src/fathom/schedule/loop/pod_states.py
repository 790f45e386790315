"""The states of a pod in the scheduler, and the legal moves between them.

`LEGAL` lists all of them. Only the queue and `pod_moves` move pods, and both call `check_move` first. An
illegal move raises before anything has changed.

    new ──> gated ──> active ──> in-hand ──> sent ──> landed ──> seen
                        ^           │ └────┐   │ └──> withdrawn: not ours any more, no answer yet
                        ├── parked <┘      v   v
                        └── backoff <──── refused

A pod may be seen on a node, or be gone, at any time: other clients bind and delete too. A reservation or a
nominated node is not a state: the pod waits all the same (see `reservations`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from fathom.model.invariant import InvariantBroken

PodState = Literal[
    "new",  # Not known here: not in the cache yet, another scheduler's, or seen or gone before.
    "gated",  # Waits for its scheduling gates to be removed.
    "active",  # Waits for its turn.
    "backoff",  # Waits for its backoff, after its binding was refused.
    "parked",  # Unschedulable: waits for an event that could help.
    "in-hand",  # Taken from the queue: being decided, or held back until room for it is reserved.
    "sent",  # Its binding is under way, and counted on its node.
    "refused",  # This attempt did not bind it: refused, fenced off, held back. It waits again at once.
    "withdrawn",  # Its binding is under way, but the pod is now being deleted or another scheduler's.
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
        # active -> active: its shape or priority has changed.
        "active": _to("active", "gated", "in-hand", "seen", "gone"),
        "backoff": _to("active", "gated", "seen", "gone"),
        "parked": _to("active", "gated", "seen", "gone"),
        "in-hand": _to("sent", "parked", "refused", "gated", "seen", "gone"),
        "sent": _to("landed", "refused", "withdrawn", "seen", "gone"),
        "refused": _to("active", "backoff", "gated", "seen", "gone"),
        # withdrawn -> sent: the pod is ours again, and its binding has no answer yet.
        "withdrawn": _to("sent", "seen", "gone"),
        # Never back to waiting, whatever an older view shows: the pod is bound.
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
    """A move that `LEGAL` does not list. Nothing was changed."""

    def __init__(self, before: PodState, after: PodState, pod: object) -> None:
        super().__init__(f"a pod that is {before} cannot become {after}: {pod}")
        self.before = before
        self.after = after


def check_move(before: PodState, after: PodState, pod: object) -> None:
    """Raise IllegalMove unless the move is legal. `pod` names the pod in the message."""
    if after not in LEGAL[before]:
        raise IllegalMove(before, after, pod)
