"""Attempts to place pods: the context of each decision, and its record, written before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Obj, metadata
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.place import Placement
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.decision_records import BatchContext
from fathom.schedule.loop.queue import QueueEntry
from fathom.schedule.loop.state import SchedulerState

GATED = "PodScheduled=False/SchedulingGated"
BASE = frozenset({"Pod", "Node"})  # Kinds that every record lists, even if the cluster has no such object.


class Attempts:
    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def groups(self, pods: list[PodView]) -> list[list[PodView]]:
        """Split pods of one shape into groups that share a context: one group for all, and a group of its own
        for each pod that an override or a rollout may name, or that room is claimed for."""
        together: list[PodView] = []
        groups: list[list[PodView]] = [together]
        for pod in pods:
            if self._state.known.is_alone(pod):
                groups.append([pod])
            else:
                together.append(pod)
        return [group for group in groups if group]

    def record_gates(self, pod: PodView) -> None:
        """Record the decision once for each set of gates: a gated pod is not taken from the queue."""
        entry = self._state.queue.entry(pod.uid)
        if entry is None or not self._state.pods.record_gates(pod.uid, pod.shape.gates):
            return
        context = self.context(pod)
        placement = self._state.known.decider.place(pod, context)
        self.record(entry, pod, placement, self.around(context, [pod]), "gated", condition=GATED)

    def record(
        self,
        entry: QueueEntry,
        pod: PodView,
        placement: Placement,
        around: BatchContext,
        verdict: str,
        **more: str,
    ) -> str:
        table = self._state.known.table
        return self._state.recorder.decided(
            entry, pod, placement, around,
            verdict=verdict, names=table.names, nodes_version=table.nodes_version, **more,
        )  # fmt: skip

    def context(self, pod: PodView) -> PlacementContext:
        now_ns = self._state.clock.now_ns()
        snapshot = self._state.caches.snapshot()
        age_ms = round(1000 * min(1e6, max(snapshot.age("Node"), snapshot.age("Pod"))))
        return self._state.known.context(
            pod, now_ns=now_ns, view_age_ms=age_ms, refused_nodes=self._state.refused_nodes.nodes
        )

    def around(self, context: PlacementContext, pods: Sequence[PodView]) -> BatchContext:
        snapshot = self._state.caches.snapshot()
        seen = {kind: snapshot.seen(kind) for kind in snapshot.kinds}
        return BatchContext(
            time_ns=self._state.clock.now_ns(),
            now_ns=self._state.clock.monotonic_ns(),
            seen=seen,
            seen_briefly={
                kind: versions for kind, versions in seen.items() if kind in BASE or snapshot.size(kind)
            },
            epoch=self._state.epoch,
            need="any age",  # The API server checks the binding.
            context=context,
            generation={pod.uid: _generation(snapshot.get("Pod", pod.key)) for pod in pods},
            consulted=self._state.known.consulted.under(context),
        )


def _generation(pod: Obj | None) -> int:
    return int(metadata(pod or {}).get("generation") or 0)
