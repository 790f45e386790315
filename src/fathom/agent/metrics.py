"""Metrics of an agent, with the kubelet's names where the kubelet counts the same."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.agent.heartbeat import Heartbeat
from fathom.agent.pods import NodePods
from fathom.metrics.families import Family, counter, gauge
from fathom.metrics.registry import Part
from fathom.seams.outside import Clock


def measure_agent(metrics: Part, node: str, pods: NodePods, heartbeat: Heartbeat, clock: Clock) -> None:
    metrics.register("agent", lambda: agent_families(node, pods, heartbeat, now_ns=clock.monotonic_ns()))


def agent_families(node: str, pods: NodePods, heartbeat: Heartbeat, *, now_ns: int) -> Iterable[Family]:
    yield gauge("kubelet_node_name", "The node's name; the value is always 1.", 1, {"node": node})
    yield from _pods(pods)
    heard_ns = heartbeat.heard_ns
    age_s = float("inf") if heard_ns is None else max(0, now_ns - heard_ns) / 1e9
    age_help = "Seconds since the API server last accepted a renewal of the node's lease."
    yield gauge("fathom_agent_heartbeat_age_seconds", age_help, age_s)
    failures_help = "Heartbeats that the API server did not accept."
    yield counter("fathom_agent_heartbeat_failures_total", failures_help, heartbeat.failures)


def _pods(pods: NodePods) -> Iterable[Family]:
    views = [[slot.view for slot in worker.slots.values()] for worker in pods.workers]
    running = sum(any(view.running for view in pod) for pod in views)
    yield gauge("kubelet_running_pods", "Pods with a running container.", running)
    states = {"running": 0, "exited": 0, "created": 0}
    restarts = 0
    for view in (view for pod in views for view in pod):
        state = "running" if view.running else "created" if view.run is None else "exited"
        states[state] += 1
        restarts += 0 if view.run is None else view.run.attempt
    containers = Family("kubelet_running_containers", "gauge", "Containers of this node's pods, by state.")
    for state, count in states.items():
        containers.add(count, {"container_state": state})
    yield containers
    restarts_help = "Restarts of all containers that are on the node now."
    yield gauge("fathom_agent_container_restarts", restarts_help, restarts)
    yield gauge("fathom_agent_rejected_pods", "Pods that did not fit and were rejected.", pods.rejected)
