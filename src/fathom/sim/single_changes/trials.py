"""A fork for each change: is the pod bound at the end?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.model.objects import is_deleting, key_of, lookup
from fathom.sim.fork import ForkFailed, end, fork, perform, run_for
from fathom.sim.fork_state import ClusterState
from fathom.sim.single_changes.candidates import Candidate, Kind, candidates
from fathom.sim.single_changes.random_cluster import POD, WaitingPod
from fathom.sim.single_changes.typed import ApiChange, NotMade, make
from fathom.sim.world.world import World

# Virtual time in which the pod must be bound: a scheduler that starts, and its first retry.
BOUND_S, LOOK_S = 16.0, 4.0


class Trial(msgspec.Struct, frozen=True):
    """What became of a change."""

    bound: bool  # The pod has a node.
    ended: tuple[
        str, ...
    ]  # Other pods that ran before and do not run now: the scheduler evicted them for it.


class Helpful(msgspec.Struct, frozen=True):
    """A single change after which the pod was bound; of those with amounts the smallest."""

    kind: Kind
    change: ApiChange
    share: float = 1.0  # Of the pod's requests: the part given up. Of a list: how many entries go.

    @property
    def size(self) -> tuple[int, float]:
        return self.kind, self.share


def try_changes(state: ClusterState, changes: Sequence[ApiChange], *, within_s: float = BOUND_S) -> Trial:
    """Raises NotMade, ForkFailed."""
    world = fork(state, "0")
    try:
        before = _running(world)
        perform(world, lambda world: make(world, changes))
        waited_s = 0.0
        while waited_s < within_s and not _is_bound(world):
            run_for(world, LOOK_S)
            waited_s += LOOK_S
        return Trial(_is_bound(world), tuple(sorted(before - _running(world))))
    finally:
        end(world)


def _is_bound(world: World) -> bool:
    return bool(lookup(world.get("pods", POD) or {}, "spec", "nodeName"))


def _running(world: World) -> set[str]:
    pods = [pod for pod in world.list("pods") if lookup(pod, "spec", "nodeName") and not is_deleting(pod)]
    return {key_of(pod).name for pod in pods if key_of(pod) != POD}


def helpful_changes(waiting: WaitingPod) -> list[Helpful]:
    """All single changes that admit the pod."""
    world = fork(waiting.state, "0")
    try:
        listed = list(candidates(world))
    finally:
        end(world)
    return [helpful for candidate in listed if (helpful := _tried(waiting.state, candidate)) is not None]


def _tried(state: ClusterState, candidate: Candidate) -> Helpful | None:
    if candidate.step and candidate.now == candidate.sure:
        return None
    trial = _trial(state, candidate.change)
    if not trial.bound:
        return None
    if trial.ended or candidate.change_to is None:
        return Helpful(Kind.OTHER_PODS if trial.ended else candidate.kind, candidate.change, candidate.amount)
    amount = _least(state, candidate)
    share = abs(candidate.now - amount) / candidate.share_of if candidate.share_of else candidate.amount
    return Helpful(candidate.kind, candidate.change_to(amount), share)


def _least(state: ClusterState, candidate: Candidate) -> int:
    """The amount nearest to the present one that helps and ends no other pod, by bisection: one that is
    further helps as well."""
    assert candidate.change_to is not None
    sign = 1 if candidate.sure > candidate.now else -1
    low, high = 0, abs(candidate.sure - candidate.now) // candidate.step  # In steps: `low` does not help.
    while high - low > 1:
        middle = (low + high) // 2
        trial = _trial(state, candidate.change_to(candidate.now + sign * middle * candidate.step))
        low, high = (low, middle) if trial.bound and not trial.ended else (middle, high)
    return candidate.now + sign * high * candidate.step


def _trial(state: ClusterState, change: ApiChange) -> Trial:
    try:
        return try_changes(state, [change])
    except (NotMade, ForkFailed):
        return Trial(bound=False, ended=())
