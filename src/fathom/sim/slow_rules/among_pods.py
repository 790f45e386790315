"""Rules about the other pods: spread, affinity, the policy's zone skew, and a tenant's quota."""

from __future__ import annotations

from fathom.model.objects import Obj
from fathom.model.selectors import LabelSelector
from fathom.schedule.decide.context import PlacementContext
from fathom.sim.slow_rules.cluster import (
    REGION,
    ZONE,
    Cluster,
    drawn,
    labels,
    matches,
    namespace,
    pod_terms,
    requests,
    same_domain,
    wants_node,
)
from fathom.sim.slow_rules.on_nodes import exclusive_class, in_class, tainted

TOLD_APART = {"pod-template-hash", "controller-revision-hash"}


def spread_matches(constraint: Obj, owner: Obj, pod: Obj) -> bool:
    if namespace(owner) != namespace(pod):
        return False
    selector = LabelSelector.from_object(constraint.get("labelSelector"))
    if selector.nothing or not selector.matches(labels(pod)):
        return False
    keys = [key for key in constraint.get("matchLabelKeys") or () if key in labels(owner)]
    return all(labels(pod).get(key) == labels(owner)[key] for key in keys)


def spread_counts(pod: Obj, constraint: Obj, keys: list[str], cluster: Cluster) -> dict[str, int]:
    """Domain -> pods, of the nodes that count."""
    counts: dict[str, int] = {}
    for name, node in cluster.nodes.items():
        if any(key not in labels(node) for key in keys):
            continue
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not wants_node(pod, node):
            continue
        if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and tainted(pod, node):
            continue
        domain = labels(node).get(constraint["topologyKey"])
        if domain is not None:
            counts[domain] = counts.get(domain, 0) + sum(
                spread_matches(constraint, pod, one) and not one["metadata"].get("deletionTimestamp")
                for one in cluster.on(name)
            )
    return counts


def constraints(pod: Obj, which: str) -> list[Obj]:
    listed = pod["spec"].get("topologySpreadConstraints") or ()
    return [one for one in listed if one["whenUnsatisfiable"] == which]


def spread(pod: Obj, node: Obj, cluster: Cluster) -> tuple[str, ...]:
    text = "node(s) didn't match pod topology spread constraints"
    hard = constraints(pod, "DoNotSchedule")
    for one in hard:
        counts = spread_counts(pod, one, [c["topologyKey"] for c in hard], cluster)
        domain = labels(node).get(one["topologyKey"])
        if domain is None:
            return (f"{text} (missing required label)",)
        least = min(counts.values(), default=0)
        if len(counts) < (one.get("minDomains") or 1):
            least = 0
        if counts.get(domain, 0) + spread_matches(one, pod, pod) - least > one["maxSkew"]:
            return (text,)
    return ()


def together(pod: Obj, node: Obj, cluster: Cluster) -> tuple[str, ...]:
    terms = pod_terms(pod, "podAffinity")
    if not terms:
        return ()
    failed = ("node(s) didn't match pod affinity rules",)
    wanted = [one for one in cluster.pods if all(matches(term, pod, one, cluster) for term in terms)]
    placed = [
        (one, cluster.nodes[one["spec"]["nodeName"]])
        for one in wanted
        if one["spec"]["nodeName"] in cluster.nodes
    ]
    if any(term["topologyKey"] not in labels(node) for term in terms):
        return failed
    somebody = any(term["topologyKey"] in labels(where) for _, where in placed for term in terms)
    if not somebody and all(matches(term, pod, pod, cluster) for term in terms):
        return ()
    for term in terms:
        key = term["topologyKey"]
        if not any(labels(where).get(key) == labels(node)[key] for _, where in placed):
            return failed
    return ()


def apart(pod: Obj, node: Obj, cluster: Cluster) -> tuple[str, ...]:
    for term in pod_terms(pod, "podAntiAffinity"):
        for name, where in cluster.nodes.items():
            if same_domain(term["topologyKey"], where, node) and any(
                matches(term, pod, one, cluster) for one in cluster.on(name)
            ):
                return ("node(s) didn't match pod anti-affinity rules",)
    return ()


def unwelcome(pod: Obj, node: Obj, cluster: Cluster) -> tuple[str, ...]:
    for name, where in cluster.nodes.items():
        for one in cluster.on(name):
            for term in pod_terms(one, "podAntiAffinity"):
                if same_domain(term["topologyKey"], where, node) and matches(term, one, pod, cluster):
                    return ("node(s) didn't satisfy existing pods anti-affinity rules",)
    return ()


def kin(pod: Obj, other: Obj) -> bool:
    shared = {key: value for key, value in labels(pod).items() if key not in TOLD_APART}
    return (
        bool(shared)
        and namespace(pod) == namespace(other)
        and all(labels(other).get(key) == value for key, value in shared.items())
    )


def zone_skew(pod: Obj, node: Obj, cluster: Cluster, world: PlacementContext) -> tuple[str, ...]:
    most, regions = world.policy.max_zone_skew, world.policy.regions
    if most is None or not kin(pod, pod):
        return ()
    concerned = [
        (name, one)
        for name, one in cluster.nodes.items()
        if ZONE in labels(one) and (not regions or labels(one).get(REGION) in regions)
    ]
    if node["metadata"]["name"] not in {name for name, _ in concerned}:
        return ()
    counts: dict[str, int] = {}
    for name, one in concerned:
        if wants_node(pod, one):
            zone = labels(one)[ZONE]
            pods = [p for p in cluster.on(name) if kin(pod, p) and not p["metadata"].get("deletionTimestamp")]
            counts[zone] = counts.get(zone, 0) + len(pods)
    if counts.get(labels(node)[ZONE], 0) + 1 - min(counts.values(), default=0) > most:
        return (f"policy/{world.policy.name}: zones would differ by more than maxZoneSkew={most}",)
    return ()


def class_there(pod: Obj, node: Obj, cluster: Cluster, world: PlacementContext) -> str:
    its = exclusive_class(node, cluster)
    if drawn(pod) or its is not None:
        return drawn(pod) or (its.name if its is not None else "")
    for one in cluster.classes:
        allowed = any(a.capacity_class == one.name and a.left != 0 for a in world.allowed)
        if one.kept and in_class(node, one) and allowed:
            return one.name
    return ""


def over_quota(
    pod: Obj, tenant: str, node: Obj, cluster: Cluster, world: PlacementContext
) -> tuple[str, ...]:
    quota = world.quota
    for limit in quota.limits if quota is not None else ():
        zone, own = labels(node).get(ZONE, ""), class_there(pod, node, cluster, world)
        if limit.zone not in {None, zone} or limit.capacity_class not in {None, own}:
            continue
        for resource, most in limit.needs:
            used = 0
            for one in cluster.pods:
                where = labels(cluster.nodes.get(one["spec"]["nodeName"], {"metadata": {}})).get(ZONE, "")
                if (
                    tenant_of(one) == tenant
                    and limit.zone in {None, where}
                    and limit.capacity_class in {None, drawn(one)}
                ):
                    used += requests(one).get(resource, 0)
            asked = requests(pod).get(resource)
            if asked and used + asked > most:
                return (
                    "quota/" + "-".join(part for part in (tenant, limit.zone, limit.capacity_class) if part),
                )
    return ()


def tenant_of(pod: Obj) -> str:
    """In these worlds a namespace is a tenant."""
    return namespace(pod)
