"""A past for pods that exist: attempts of the real decider, written by the scheduler's own recorder to a real
journal, and the audit entries of as many writes.

Each pod was decided again and again: every second time no node took it (it asked for more then), the other
times it was bound and the API server refused, because another pod had been faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import msgspec

from fathom.bench.workloads import Obj
from fathom.model.audit import AuditEntry
from fathom.model.cause import WakeCause
from fathom.model.decision import SeenVersions, Subject
from fathom.model.objects import Key, key_of, uid_of
from fathom.model.times import micro_timestamp
from fathom.record.audit import AuditLog
from fathom.record.audit_reading import files
from fathom.record.journal import DiskJournal
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.place import Placement
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.decision_records import BatchContext, Recorder
from fathom.schedule.loop.queue import QueueEntry, WaitingPod
from fathom.schedule.loop.watched_kinds import KINDS
from fathom.seams.outside import SystemClock

BATCH = 256
ROUND_NS = 60_000_000_000  # Between two attempts of a pod: as long as a pod is parked at most.
BATCH_NS = 1_000_000
SECOND = 1_000_000_000
TOO_MUCH_CPU = "64"


class WrittenHistory(msgspec.Struct, frozen=True):
    decisions: int
    bytes: int  # Of the journal, before packing.


class _Past:
    """The scheduler of these pods, in the past."""

    def __init__(self, journal: DiskJournal, nodes: Sequence[Obj]) -> None:
        self._recorder = Recorder(journal, prefix="bench", controller="scheduler")
        self._cluster = ClusterView()
        for node in nodes:
            self._cluster.put("Node", None, node)
        self._revisions = count(1000)
        self.decisions = 0

    def batches(self, pods: Sequence[Obj]) -> list[list[PodView]]:
        """As the scheduler takes them: pods of one shape together."""
        shapes: dict[object, list[PodView]] = {}
        for pod in pods:
            view = self._cluster.view(pod)
            shapes.setdefault(view.shape, []).append(view)
        return [
            views[start : start + BATCH] for views in shapes.values() for start in range(0, len(views), BATCH)
        ]

    def attempt(self, views: Sequence[PodView], *, attempt: int, time_ns: int) -> None:
        context = self._cluster.context(views[0], now_ns=time_ns)
        around = self._around(views, time_ns, context)
        for view, placement in zip(views, self._cluster.decider.place_batch(views, context), strict=True):
            self._record(view, placement, around, attempt)
            self._cluster.table.forget(view.uid)

    def _around(self, views: Sequence[PodView], time_ns: int, context: PlacementContext) -> BatchContext:
        seen = {kind.name: SeenVersions(next(self._revisions), 12) for kind in KINDS}
        return BatchContext(
            time_ns=time_ns,
            now_ns=time_ns,
            seen=seen,
            seen_briefly={kind: seen[kind] for kind in ("Pod", "Node", "Namespace")},
            epoch=1,
            need="any age",
            context=context,
            generation=dict.fromkeys((view.uid for view in views), 1),
            consulted=self._cluster.consulted.under(context),
        )

    def _record(self, view: PodView, placement: Placement, around: BatchContext, attempt: int) -> None:
        self.decisions += 1
        table = self._cluster.table
        verdict = "unschedulable" if placement.node is None else "bind"
        id_ = self._recorder.decided(
            _entry(view, attempt, around.now_ns), view, placement, around,
            verdict=verdict, names=table.names, nodes_version=table.nodes_version,
        )  # fmt: skip
        if placement.node is not None:
            written = Subject("pods", *view.key, view.uid, 1)
            self._recorder.concluded(
                id_, around.time_ns + SECOND // 50, "conflict", written=written, check="NodeFull",
                message=f"{placement.node} has no room left",
            )  # fmt: skip


def _entry(view: PodView, attempt: int, now_ns: int) -> QueueEntry:
    cause = WakeCause("event", "changed", "nodes", "", f"node-{attempt:05d}", 1000 + attempt)
    waiting = WaitingPod(view.uid, view.key, view.shape, view.tenant, view.priority, now_ns - ROUND_NS)
    since_ns = now_ns - SECOND
    return QueueEntry(waiting, "in-hand", cause, since_ns, since_ns, attempt=attempt, place=(attempt, 100))


def write_decisions(
    directory: Path,
    nodes: Sequence[Obj],
    pods: Sequence[Obj],
    *,
    rounds: int,
    budget_bytes: int,
    until_ns: int,
) -> WrittenHistory:
    """`rounds` decisions for each pod, the last one shortly before `until_ns`."""
    journal = DiskJournal(directory, budget_bytes=budget_bytes)
    past = _Past(journal, nodes)
    fitting = past.batches(pods)
    wanting_more = past.batches([_with_cpu(pod, TOO_MUCH_CPU) for pod in pods])
    for attempt in range(1, rounds + 1):
        time_ns = until_ns - (rounds + 1 - attempt) * ROUND_NS
        for number, views in enumerate(fitting if attempt % 2 else wanting_more):
            past.attempt(views, attempt=attempt, time_ns=time_ns + number * BATCH_NS)
    journal.close()
    return WrittenHistory(past.decisions, journal.bytes)


def _with_cpu(pod: Obj, cpu: str) -> Obj:
    containers = [
        {**container, "resources": {"requests": {"cpu": cpu}}} for container in pod["spec"]["containers"]
    ]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


# The audit log.


def write_audit(directory: Path, pods: Sequence[Obj], *, writes: int, until_ns: int) -> list[Path]:
    """So many writes of the pods' status, in turn. Returns the files, oldest first."""
    log = AuditLog(directory, clock=SystemClock())
    keys = [(key_of(pod), uid_of(pod)) for pod in pods]
    for number in range(writes):
        key, uid = keys[number % len(keys)]
        log.record(_status_write(number, key, uid, until_ns - (writes - number) * 1_000_000))
    log.close()
    return files(directory)


def _status_write(number: int, key: Key, uid: str, time_ns: int) -> AuditEntry:
    return AuditEntry(
        id=f"bench-{number:x}",
        time=micro_timestamp(time_ns),
        user="system:fathom:scheduler",
        verb="patch",
        resource="pods",
        code=200,
        groups=("system:authenticated",),
        namespace=key.namespace,
        name=key.name,
        uid=uid,
        subresource="status",
        request=f"bench-{number:x}",
        user_agent="fathom/0.1.0 scheduler",
        source="127.0.0.1:40000",
        decision=f"bench-{number:x}",
        actor="scheduler",
        revision=number + 1,
        changed=("status.conditions[type=PodScheduled]",),
    )
