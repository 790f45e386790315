"""An attempt to place pods: what it is decided under, and how it goes on record, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.decision import Seen
from fathom.model.objects import Obj, metadata
from fathom.schedule.context import Context
from fathom.schedule.desk import Desk
from fathom.schedule.place import Placement
from fathom.schedule.pods import PodView
from fathom.schedule.queue import Entry
from fathom.schedule.records import Circumstances

BASE = frozenset({"Pod", "Node"})  # Kinds that are on every record, also when there is nothing of them.


class Attempts:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def groups(self, pods: list[PodView]) -> list[list[PodView]]:
        """Pods of one shape that are decided under one context: all together, but for those that something
        calls by name, or has kept room for."""
        together: list[PodView] = []
        groups: list[list[PodView]] = [together]
        for pod in pods:
            if self._desk.known.is_alone(pod):
                groups.append([pod])
            else:
                together.append(pod)
        return [group for group in groups if group]

    def record_gates(self, pod: PodView) -> None:
        """Once for each set of gates: a gated pod is not in line."""
        entry = self._desk.queue.entry(pod.uid)
        if entry is None or not self._desk.pods.record_gates(pod.uid, pod.shape.gates):
            return
        context = self.context(pod)
        placement = self._desk.known.decider.place(pod, context)
        self.record(entry, pod, placement, self.around(context, [pod]), "gated")

    def record(
        self,
        entry: Entry,
        pod: PodView,
        placement: Placement,
        around: Circumstances,
        verdict: str,
        **more: str,
    ) -> str:
        table = self._desk.known.table
        return self._desk.recorder.decided(
            entry, pod, placement, around,
            verdict=verdict, names=table.names, nodes_version=table.nodes_version, **more,
        )  # fmt: skip

    def context(self, pod: PodView) -> Context:
        now_ns = self._desk.clock.now_ns()
        snapshot = self._desk.caches.snapshot()
        age_ms = round(1000 * min(1e6, max(snapshot.age("Node"), snapshot.age("Pod"))))
        return self._desk.known.context(
            pod, now_ns=now_ns, view_age_ms=age_ms, doubted=self._desk.doubts.nodes
        )

    def around(self, context: Context, pods: Sequence[PodView]) -> Circumstances:
        snapshot = self._desk.caches.snapshot()
        seen = {
            kind: Seen(snapshot.revision(kind), round(1000 * min(1e6, snapshot.age(kind))))
            for kind in snapshot.kinds
        }
        return Circumstances(
            time_ns=self._desk.clock.now_ns(),
            now_ns=self._desk.clock.monotonic_ns(),
            seen=seen,
            seen_briefly={kind: one for kind, one in seen.items() if kind in BASE or snapshot.size(kind)},
            epoch=(self._desk.term.epoch or 0) if self._desk.term is not None else 0,
            need="any: the commit proves it",
            context=context,
            generation={pod.uid: _generation(snapshot.get("Pod", pod.key)) for pod in pods},
        )


def _generation(pod: Obj | None) -> int:
    return int(metadata(pod or {}).get("generation") or 0)
