"""The scheduler's rules once more, slow and obvious: plain loops over the JSON objects,
node by node and pod by pod.

It shares with the real ones only how selectors match, how quantities are read and the words of the reasons.
What is vectorised, cached or kept up to date over there is worked out from scratch here, every time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from fathom.model.objects import Obj
from fathom.model.podresources import REQUESTS, pod_amounts
from fathom.model.quantity import parse
from fathom.model.selectors import LabelSelector
from fathom.schedule.decide.context import DelayedClaim, PlacementContext, Reserved

ZONE, HOSTNAME, REGION = (
    "topology.kubernetes.io/zone",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/region",
)
CONDITIONS = {
    ("Ready", "False"): "not-ready",
    ("Ready", "Unknown"): "unreachable",
    ("MemoryPressure", "True"): "memory-pressure",
}
TOLD_APART = {"pod-template-hash", "controller-revision-hash"}


class Cluster:
    """Everything there is, as objects."""

    def __init__(
        self,
        nodes: list[Obj],
        pods: list[Obj],
        namespaces: dict[str, dict[str, str]],
        classes: tuple[Reserved, ...] = (),
        claims: dict[str, tuple[str, dict[str, int], int]] | None = None,
    ) -> None:
        self.nodes = {one["metadata"]["name"]: one for one in nodes}
        self.pods = [
            one for one in pods if (one.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
        ]
        self.namespaces = namespaces
        self.classes = sorted(classes, key=lambda one: one.name)
        self.claims = claims or {}  # Holder -> node, needs, priority.

    def on(self, node: str) -> list[Obj]:
        return [one for one in self.pods if one["spec"].get("nodeName") == node]


# Reading.


def labels(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def namespace(pod: Obj) -> str:
    return str(pod["metadata"]["namespace"])


def drawn(pod: Obj) -> str:
    return str((pod["metadata"].get("annotations") or {}).get("fathom.dev/capacity-class") or "")


def amount(name: str, quantity: Any) -> int:
    return parse(quantity).milli if name == "cpu" else parse(quantity).value


def requests(pod: Obj) -> dict[str, int]:
    asked = {name: (q.milli if name == "cpu" else q.value) for name, q in pod_amounts(pod, REQUESTS).items()}
    return {name: value for name, value in {**asked, "pods": 1}.items() if value}


def scored(pod: Obj) -> dict[str, int]:
    """With a little for each container that asks for nothing."""
    found = {}
    for name, least in (("cpu", "100m"), ("memory", str(200 * 1024 * 1024))):
        containers = []
        for one in pod["spec"]["containers"]:
            asked = (one.get("resources") or {}).get("requests") or {}
            containers.append({**one, "resources": {"requests": {name: least, **asked}}})
        total = pod_amounts({"spec": {**pod["spec"], "containers": containers}}, REQUESTS).get(name)
        found[name] = 0 if total is None else (total.milli if name == "cpu" else total.value)
    return found


def allocatable(node: Obj) -> dict[str, int]:
    return {name: amount(name, value) for name, value in node["status"].get("allocatable", {}).items()}


def taints(node: Obj) -> list[tuple[str, str, str]]:
    written = [(t["key"], t.get("value", ""), t["effect"]) for t in node["spec"].get("taints") or ()]
    for one in node["status"].get("conditions") or ():
        name = CONDITIONS.get((one["type"], one["status"]))
        implied = (f"node.kubernetes.io/{name}", "", "NoSchedule")
        if name and implied not in written:
            written.append(implied)
    return written


def tolerated(pod: Obj, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    for one in pod["spec"].get("tolerations") or ():
        if one.get("effect") and one["effect"] != effect:
            continue
        if one.get("key") and one["key"] != key:
            continue
        if one.get("operator") == "Exists":
            return True
        if one.get("key") and one.get("value", "") == value:
            return True
    return False


def term_holds(term: Obj, node: Obj) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    named = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(one, labels(node)) for one in expressions) and all(_holds(one, named) for one in fields)


def _holds(expression: Obj, found: dict[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    has = key in found
    if operator == "In":
        return has and found[key] in values
    if operator == "NotIn":
        return not has or found[key] not in values
    if operator == "Exists":
        return has
    if operator == "DoesNotExist":
        return not has
    try:
        here = int(found[key])
    except (KeyError, ValueError):
        return False
    return here > int(values[0]) if operator == "Gt" else here < int(values[0])


def wants_node(pod: Obj, node: Obj) -> bool:
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels(node).get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(term_holds(one, node) for one in required["nodeSelectorTerms"])


def matches(term: Obj, owner: Obj, pod: Obj, cluster: Cluster) -> bool:
    """Whether `owner`'s affinity term is about `pod`."""
    selector = LabelSelector.from_object(term.get("labelSelector"))
    if selector.nothing or not selector.matches(labels(pod)):
        return False
    for key in term.get("matchLabelKeys") or ():
        if key in labels(owner) and labels(pod).get(key) != labels(owner)[key]:
            return False
    for key in term.get("mismatchLabelKeys") or ():
        if key in labels(owner) and labels(pod).get(key) == labels(owner)[key]:
            return False
    listed, chosen = term.get("namespaces") or [], term.get("namespaceSelector")
    if not listed and chosen is None:
        return namespace(pod) == namespace(owner)
    if namespace(pod) in listed:
        return True
    there = cluster.namespaces.get(namespace(pod), {})
    return chosen is not None and LabelSelector.from_object(chosen).matches(there)


def pod_terms(pod: Obj, which: str) -> list[Obj]:
    affinity = (pod["spec"].get("affinity") or {}).get(which) or {}
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def liked_terms(pod: Obj) -> list[tuple[int, Obj]]:
    affinity = pod["spec"].get("affinity") or {}
    return [
        (sign * one["weight"], one["podAffinityTerm"])
        for which, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
        for one in (affinity.get(which) or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    ]


# Filters.


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


def same_domain(key: str, one: Obj, other: Obj) -> bool:
    return key in labels(one) and labels(one)[key] == labels(other).get(key)


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


# Scores.


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
