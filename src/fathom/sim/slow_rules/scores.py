"""Each node's points, of those that a pod fits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fathom.model.objects import Obj
from fathom.schedule.decide.context import PlacementContext
from fathom.sim.slow_rules.among_pods import TOLD_APART, constraints, kin, spread_counts
from fathom.sim.slow_rules.cluster import (
    HOSTNAME,
    ZONE,
    Cluster,
    allocatable,
    labels,
    liked_terms,
    matches,
    pod_terms,
    requests,
    same_domain,
    scored,
    taints,
    term_holds,
    tolerated,
)
from fathom.sim.slow_rules.filters import verdicts
from fathom.sim.slow_rules.on_nodes import taken


def scores(pod: Obj, tenant: str, cluster: Cluster, world: PlacementContext) -> dict[str, int]:
    """Totals of the nodes that fit."""
    feasible = [name for name, found in verdicts(pod, tenant, cluster, world).items() if not found]
    total = dict.fromkeys(feasible, 0)
    for name, own, points in (
        ("TaintToleration", 3, scaled({n: disliked(pod, cluster.nodes[n]) for n in feasible}, down=True)),
        ("NodeAffinity", 2, scaled({n: liked(pod, cluster.nodes[n]) for n in feasible}, down=False)),
        ("PodTopologySpread", 2, soft_spread(pod, feasible, cluster, world)),
        ("InterPodAffinity", 2, neighbours(pod, feasible, cluster)),
        ("LeastAllocated", 1, {n: least_allocated(pod, n, cluster) for n in feasible}),
        ("MostAllocated", 0, {n: most_allocated(pod, n, cluster) for n in feasible}),
        ("BalancedAllocation", 1, {n: balanced(pod, n, cluster) for n in feasible}),
        ("ImageLocality", 1, {n: images(pod, n, cluster) for n in feasible}),
        ("NodeTrust", 4, {n: max(0, 100 - world.trust_lost.get(n, 0)) for n in feasible}),
    ):
        for node in feasible:
            total[node] += world.policy.weights.get(name, own) * points[node]
    return total


def scaled(raw: dict[str, int], *, down: bool) -> dict[str, int]:
    most = max(raw.values(), default=0)
    points = {name: 100 * value // most if most else 0 for name, value in raw.items()}
    return {name: 100 - value for name, value in points.items()} if down else points


def disliked(pod: Obj, node: Obj) -> int:
    return sum(one[2] == "PreferNoSchedule" and not tolerated(pod, one) for one in taints(node))


def liked(pod: Obj, node: Obj) -> int:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    listed = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(one["weight"] for one in listed if term_holds(one["preference"], node))


def _rooms(pod: Obj, name: str, cluster: Cluster) -> Iterator[tuple[int, int]]:
    room_here = allocatable(cluster.nodes[name])
    for resource in ("cpu", "memory"):
        used = sum(scored(one)[resource] for one in (*cluster.on(name), pod))
        if room_here.get(resource, 0) > 0:
            yield used, room_here[resource]


def least_allocated(pod: Obj, name: str, cluster: Cluster) -> int:
    points = [max(room_here - used, 0) * 100 // room_here for used, room_here in _rooms(pod, name, cluster)]
    return sum(points) // len(points) if points else 0


def most_allocated(pod: Obj, name: str, cluster: Cluster) -> int:
    points = [min(used, room_here) * 100 // room_here for used, room_here in _rooms(pod, name, cluster)]
    return sum(points) // len(points) if points else 0


def balanced(pod: Obj, name: str, cluster: Cluster) -> int:
    asked, node = requests(pod), cluster.nodes[name]
    if "cpu" not in asked and "memory" not in asked:
        return 0
    parts = []
    for resource in ("cpu", "memory"):
        room_here = allocatable(node).get(resource, 0)
        if room_here <= 0:
            return 100
        used = taken(node, resource, cluster) + asked.get(resource, 0)
        parts.append(min(used, room_here) * 512 // room_here)
    return math.floor(100 - 50 * abs(parts[0] - parts[1]) / 512)


def images(pod: Obj, name: str, cluster: Cluster) -> int:
    sizes: dict[str, dict[str, int]] = {
        node: {one: i["sizeBytes"] for i in obj["status"].get("images") or () for one in i["names"]}
        for node, obj in cluster.nodes.items()
    }
    containers = pod["spec"]["containers"]
    present = 0
    for container in containers:
        image = container["image"] if ":" in container["image"] else f"{container['image']}:latest"
        having = [node for node in sizes if image in sizes[node]]
        if name in having:
            present += sizes[name][image] * len(having) // len(cluster.nodes)
    least, most = 23 * 2**20, 1000 * 2**20 * len(containers)
    return 100 * (min(max(present, least), most) - least) // (most - least)


def soft_spread(pod: Obj, feasible: list[str], cluster: Cluster, world: PlacementContext) -> dict[str, int]:
    listed = constraints(pod, "ScheduleAnyway")
    strict = bool(listed)
    if not listed:
        owned = any(one.get("controller") for one in pod["metadata"].get("ownerReferences") or ())
        if (
            pod["spec"].get("topologySpreadConstraints")
            or not owned
            or not world.policy.default_spread
            or not kin(pod, pod)
        ):
            return dict.fromkeys(feasible, 0)
        shared = {key: value for key, value in labels(pod).items() if key not in TOLD_APART}
        selector = {"matchLabels": shared}
        listed = [
            {"topologyKey": HOSTNAME, "maxSkew": 3, "labelSelector": selector},
            {"topologyKey": ZONE, "maxSkew": 5, "labelSelector": selector},
        ]
    keys = [one["topologyKey"] for one in listed]
    concerned = [n for n in feasible if not strict or all(key in labels(cluster.nodes[n]) for key in keys)]
    raw = dict.fromkeys(concerned, 0)
    for one in listed:
        counts = spread_counts(pod, one, keys if strict else [], cluster)
        domains = {
            labels(cluster.nodes[n])[one["topologyKey"]]
            for n in concerned
            if one["topologyKey"] in labels(cluster.nodes[n])
        }
        weight = round(math.log(len(domains) + 2) * 1024)
        for n in concerned:
            domain = labels(cluster.nodes[n]).get(one["topologyKey"])
            if domain is not None:
                raw[n] += counts.get(domain, 0) * weight + (one["maxSkew"] - 1) * 1024
    raw = {n: (value + 512) // 1024 for n, value in raw.items()}
    most, least = max(raw.values(), default=0), min(raw.values(), default=0)
    points = {n: 100 * (most + least - value) // most if most else 100 for n, value in raw.items()}
    return {n: points.get(n, 0) for n in feasible}


def neighbours(pod: Obj, feasible: list[str], cluster: Cluster) -> dict[str, int]:
    raw = {}
    for n in feasible:
        total = 0
        for name, where in cluster.nodes.items():
            for one in cluster.on(name):
                about = [(w, t) for w, t in liked_terms(pod) if matches(t, pod, one, cluster)]
                about += [(w, t) for w, t in liked_terms(one) if matches(t, one, pod, cluster)]
                about += [(1, t) for t in pod_terms(one, "podAffinity") if matches(t, one, pod, cluster)]
                total += sum(w for w, t in about if same_domain(t["topologyKey"], where, cluster.nodes[n]))
        raw[n] = total
    least, most = min(raw.values(), default=0), max(raw.values(), default=0)
    return {n: 100 * (value - least) // (most - least) if most > least else 0 for n, value in raw.items()}
