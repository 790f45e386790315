"""The decision alone: the same nodes and pods in memory, no server, no journal."""

from __future__ import annotations

import time

from fathom.bench.workloads import Obj, Workload
from fathom.model.objects import with_metadata
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.cluster_view import ClusterView

BATCH = 256


def decisions_per_s(workload: Workload, *, nodes: int, init_pods: int, pods: int) -> float:
    """Pods decided a second of CPU time, the first pass over the nodes included."""
    known = ClusterView()
    for number in range(nodes):
        known.put("Node", None, workload.node(number))
    _decide(known, [_view(known, workload.init_pod(number), f"init-{number}") for number in range(init_pods)])
    views = [_view(known, workload.pod(number), f"pod-{number}") for number in range(pods)]
    began = time.process_time()
    _decide(known, views)
    return pods / max(1e-9, time.process_time() - began)


def _view(known: ClusterView, pod: Obj, uid: str) -> PodView:
    return known.view(with_metadata(pod, uid=uid, namespace="default"))


def _decide(known: ClusterView, views: list[PodView]) -> None:
    for start in range(0, len(views), BATCH):
        batch = views[start : start + BATCH]
        known.decider.place_batch(batch, known.context(batch[0], now_ns=0))
