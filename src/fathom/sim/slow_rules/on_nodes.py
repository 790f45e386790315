"""Rules about the node itself, and about the room and the ports on it."""

from __future__ import annotations

from fathom.model.objects import Obj
from fathom.schedule.decide.context import DelayedClaim, PlacementContext, Reserved
from fathom.sim.slow_rules.cluster import (
    Cluster,
    allocatable,
    drawn,
    labels,
    namespace,
    requests,
    taints,
    tolerated,
)


def too_old(world: PlacementContext) -> tuple[str, ...]:
    limit = world.policy.max_view_age_ms
    if limit is None or world.view_age_ms <= limit:
        return ()
    return (f"freshness/{world.policy.name}: the view of the cluster is older than {limit} ms",)


def cordoned(pod: Obj, node: Obj) -> tuple[str, ...]:
    excused = tolerated(pod, ("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    return ("node(s) were unschedulable",) if node["spec"].get("unschedulable") and not excused else ()


def tainted(pod: Obj, node: Obj) -> tuple[str, ...]:
    for key, value, effect in taints(node):
        if effect in {"NoSchedule", "NoExecute"} and not tolerated(pod, (key, value, effect)):
            return (f"node(s) had untolerated taint {{{key}: {value}}}",)
    return ()


def avoided(node: Obj, world: PlacementContext) -> tuple[str, ...]:
    for one in world.avoided:
        inside = all(labels(node).get(key) == value for key, value in one.scope)
        if inside and labels(node).get(one.label) in one.values:
            text = f"node(s) are to be avoided ({one.label} in {', '.join(one.values)})"
            return (f"override/{one.override}: {text}",)
    return ()


def in_class(node: Obj, one: Reserved) -> bool:
    return bool(one.node_selector) and all(labels(node).get(k) == v for k, v in one.node_selector)


def exclusive_class(node: Obj, cluster: Cluster) -> Reserved | None:
    return next((one for one in cluster.classes if not one.kept and in_class(node, one)), None)


def opened(one: Reserved, tenant: str, node: Obj, world: PlacementContext) -> bool:
    return one.admits(tenant) or any(
        allowed.capacity_class == one.name
        and allowed.left != 0
        and all(labels(node).get(k) == v for k, v in allowed.scope)
        for allowed in world.allowed
    )


def reserved(pod: Obj, tenant: str, node: Obj, cluster: Cluster, world: PlacementContext) -> tuple[str, ...]:
    wanted = drawn(pod)
    if wanted:
        own = next((one for one in cluster.classes if one.name == wanted), None)
        if own is None or not in_class(node, own):
            return (f"capacity/{wanted}: node(s) were not in the capacity class",)
        if not opened(own, tenant, node, world):
            return (f"capacity/{wanted}: tenant {tenant} may not use the capacity class",)
    whole = [one for one in cluster.classes if not one.kept and in_class(node, one)]
    for number, one in enumerate(whole):
        # Without a class of its own it would be of the first, which the others do not let in.
        closed = wanted or number > 0 or not opened(one, tenant, node, world)
        if one.name != wanted and closed:
            return (f"capacity/{one.name}: node(s) were reserved for the capacity class",)
    return ()


def volumes(pod: Obj, node: Obj, world: PlacementContext) -> tuple[str, ...]:
    for volume in pod["spec"].get("volumes") or ():
        claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
        found = world.volumes.get((namespace(pod), claim))
        if found is None:
            continue
        if found.missing:
            return (f'persistentvolumeclaim "{claim}" not found',)
        if found.unbound:
            return ("pod has unbound immediate PersistentVolumeClaims",)
        if found.delayed is not None:
            if not could_be_had(found.delayed, node):
                return ("node(s) didn't find available persistent volumes to bind",)
            continue
        if found.node_terms is not None and not any(
            all(one.matches(labels(node)) for one in term.labels) and bool(term.labels)
            for term in found.node_terms
        ):
            return ("node(s) had volume node affinity conflict",)
        if any(labels(node).get(label) not in values for label, values in found.zones):
            return ("node(s) had no available volume zone",)
    return ()


def could_be_had(claim: DelayedClaim, node: Obj) -> bool:
    if claim.selected:
        return bool(claim.selected == node["metadata"]["name"])
    return any(
        terms is None
        or any(bool(term.labels) and all(one.matches(labels(node)) for one in term.labels) for term in terms)
        for terms in claim.offers
    )


def host_ports(pod: Obj) -> list[tuple[str, int, str]]:
    return [
        (port.get("protocol", "TCP"), port["hostPort"], port.get("hostIP") or "0.0.0.0")
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def ports(pod: Obj, node: Obj, cluster: Cluster) -> tuple[str, ...]:
    for other in cluster.on(node["metadata"]["name"]):
        for protocol, port, address in host_ports(other):
            for own_protocol, own_port, own_address in host_ports(pod):
                same = (protocol, port) == (own_protocol, own_port)
                if same and (address == own_address or "0.0.0.0" in {address, own_address}):
                    return ("node(s) didn't have free ports for the requested pod ports",)
    return ()


def taken(node: Obj, resource: str, cluster: Cluster) -> int:
    return sum(requests(one).get(resource, 0) for one in cluster.on(node["metadata"]["name"]))


def promised(pod: Obj, node: Obj, resource: str, cluster: Cluster, world: PlacementContext) -> int:
    total, name = 0, node["metadata"]["name"]
    for holder, (where, needs, priority) in cluster.claims.items():
        own = holder == pod["metadata"]["uid"]
        if where == name and not own and priority >= (pod["spec"].get("priority") or 0):
            total += needs.get(resource, 0)
    for one in cluster.classes:
        allowed = any(a.capacity_class == one.name and a.left != 0 for a in world.allowed)
        its_own = drawn(pod) == one.name if drawn(pod) else allowed
        if one.kept and in_class(node, one) and not its_own:
            used = sum(requests(p).get(resource, 0) for p in cluster.on(name) if drawn(p) == one.name)
            total += max(dict(one.kept).get(resource, 0) - used, 0)
    return total


def room(pod: Obj, node: Obj, cluster: Cluster, world: PlacementContext) -> tuple[str, ...]:
    short = []
    for resource, asked in requests(pod).items():
        free = allocatable(node).get(resource, 0) - taken(node, resource, cluster)
        if asked > free - promised(pod, node, resource, cluster, world):
            short.append(resource)
    ordered = sorted(short, key=lambda one: (one != "pods", one))
    return tuple("Too many pods" if one == "pods" else f"Insufficient {one}" for one in ordered)
