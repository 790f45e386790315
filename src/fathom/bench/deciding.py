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
    cluster = ClusterView()
    for number in range(nodes):
        cluster.put("Node", None, workload.node(number))
    _decide(
        cluster, [_view(cluster, workload.init_pod(number), f"init-{number}") for number in range(init_pods)]
    )
    views = [_view(cluster, workload.pod(number), f"pod-{number}") for number in range(pods)]
    began = time.process_time()
    _decide(cluster, views)
    return pods / max(1e-9, time.process_time() - began)


def _view(cluster: ClusterView, pod: Obj, uid: str) -> PodView:
    return cluster.view(with_metadata(pod, uid=uid, namespace="default"))


def _decide(cluster: ClusterView, views: list[PodView]) -> None:
    for start in range(0, len(views), BATCH):
        batch = views[start : start + BATCH]
        cluster.decider.place_batch(batch, cluster.context(batch[0], now_ns=0))
