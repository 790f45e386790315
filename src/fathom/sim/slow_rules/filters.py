"""Each node's first reason against a pod."""

from __future__ import annotations

from collections.abc import Iterator

from fathom.model.objects import Obj
from fathom.schedule.decide.context import PlacementContext
from fathom.sim.slow_rules.among_pods import apart, over_quota, spread, together, unwelcome, zone_skew
from fathom.sim.slow_rules.cluster import Cluster, wants_node
from fathom.sim.slow_rules.on_nodes import avoided, cordoned, ports, reserved, room, tainted, too_old, volumes


def verdicts(pod: Obj, tenant: str, cluster: Cluster, world: PlacementContext) -> dict[str, tuple[str, ...]]:
    """Node -> the first reasons against it; none: it fits."""
    return {name: first_reason(pod, tenant, node, cluster, world) for name, node in cluster.nodes.items()}


def first_reason(
    pod: Obj, tenant: str, node: Obj, cluster: Cluster, world: PlacementContext
) -> tuple[str, ...]:
    for found in reasons(pod, tenant, node, cluster, world):
        if found:
            return found
    return ()


def reasons(
    pod: Obj, tenant: str, node: Obj, cluster: Cluster, world: PlacementContext
) -> Iterator[tuple[str, ...]]:
    yield too_old(world)
    yield cordoned(pod, node)
    yield tainted(pod, node)
    yield () if wants_node(pod, node) else ("node(s) didn't match Pod's node affinity/selector",)
    yield avoided(node, world)
    refused = "node(s) had a binding refused; skipped until the scheduler's caches catch up"
    yield (refused,) if node["metadata"]["name"] in world.refused_nodes else ()
    yield reserved(pod, tenant, node, cluster, world)
    yield volumes(pod, node, world)
    yield ports(pod, node, cluster)
    yield room(pod, node, cluster, world)
    yield spread(pod, node, cluster)
    yield together(pod, node, cluster)
    yield apart(pod, node, cluster)
    yield unwelcome(pod, node, cluster)
    yield zone_skew(pod, node, cluster, world)
    yield over_quota(pod, tenant, node, cluster, world)
