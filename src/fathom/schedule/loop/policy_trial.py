"""Whether a pod without a node waits because of its policy: the other policy of its rollout would let it on.

During a canary some workloads have the new policy and the others the earlier one. A pod that fits no node is
tried once more, under the policy that it does not have, on the same view. So a gate can count the pods that a
policy keeps waiting, and leaves out those that wait for quota or room under either. Nothing is placed.
"""

from __future__ import annotations

from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.place import place
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.shape import PodShape
from fathom.schedule.loop.cluster_view import ClusterView


class PolicyTrial:
    def __init__(self, known: ClusterView) -> None:
        self._known = known
        # The last question; the rest of a batch shares its answer: one shape, one context, one view.
        self._last: tuple[PodShape, PlacementContext, int] | None = None
        self._answer = False

    def decides(self, pod: PodView, context: PlacementContext) -> bool:
        """For a pod that fits no node under `context`."""
        other = self._known.under_other_policy(pod, context)
        if other is None:
            return False
        asked = (pod.shape, context, self._known.table.version)
        if pod.uid in self._known.table.claims or not self._is_last(asked):
            self._last, self._answer = asked, self._fits(pod, context, other)
        return self._answer

    def _is_last(self, asked: tuple[PodShape, PlacementContext, int]) -> bool:
        last = self._last
        return last is not None and last[0] == asked[0] and last[1] is asked[1] and last[2] == asked[2]

    def _fits(self, pod: PodView, context: PlacementContext, other: PlacementContext) -> bool:
        known = self._known
        if place(pod, known.table, other, known.decider.rules).node is not None:
            return True
        may_evict = other.policy.preemption and not context.policy.preemption
        return may_evict and known.preemption(pod, other).node is not None
