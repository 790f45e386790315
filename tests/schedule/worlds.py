"""Small random clusters with everything in them that a rule can read.

A world has a few themes, not all of them: where everything happens at once, nothing fits anywhere, and the
last rules are never reached.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from fathom.model.objects import Obj
from fathom.model.selectors import IN, Requirement
from fathom.schedule.decide.context import (
    Allowed,
    Avoided,
    DelayedClaim,
    PlacementContext,
    Policy,
    Quota,
    QuotaLimit,
    Reserved,
    Volume,
)
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.pods import PodView, pod_view
from fathom.schedule.decide.shape import NodeTerm
from fathom.sim.slow_rules.cluster import HOSTNAME, REGION, ZONE, Cluster, namespace

NAMESPACES = ("n1", "n2")
ZONES = ("zone-a", "zone-b", "zone-c")
GI = 2**30

one_of = st.sampled_from


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def lists(strategy: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=most)


def some_of(strategy: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=strategy)


TAINT = st.fixed_dictionaries(
    {
        "key": one_of(["dedicated", "spot"]),
        "value": one_of(["", "a", "b"]),
        "effect": one_of(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    }
)
TOLERATION = some_of(
    {
        "key": one_of(
            ["dedicated", "spot", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"]
        ),
        "operator": one_of(["Exists", "Equal"]),
        "value": one_of(["", "a"]),
        "effect": one_of(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    }
)
CONDITION = one_of(
    [
        {"type": "Ready", "status": "True"},
        {"type": "Ready", "status": "True"},
        {"type": "Ready", "status": "False"},
        {"type": "MemoryPressure", "status": "True"},
    ]
)
NODE_LABELS = some_of(
    {
        ZONE: one_of(ZONES),
        REGION: one_of(["west", "east"]),
        "disk": one_of(["ssd", "hdd"]),
        "size": one_of(["1", "5", "10", "huge"]),
        "pool": one_of(["red", "blue"]),
    }
)


THEMES = (
    "taints",
    "cordons",
    "node affinity",
    "pod affinity",
    "neighbours",
    "spread",
    "tightness",
    "ports",
    "volumes",
    "images",
    "classes",
    "claims",
    "quota",
    "skew",
    "overrides",
    "trust",
    "freshness",
)


@st.composite
def nodes(draw: st.DrawFn, name: str, themes: set[str]) -> Obj:
    labels = {
        ZONE: draw(one_of(ZONES)),
        **draw(NODE_LABELS),
        **({} if draw(st.integers(0, 9)) == 9 else {HOSTNAME: name}),
    }
    if draw(st.integers(0, 7)) == 7:
        del labels[ZONE]
    tight = "tightness" in themes and draw(st.booleans())
    room = {
        "cpu": draw(one_of(["0", "300m", "1", "2500m"] if tight else ["4", "8"])),
        "memory": draw(one_of(["100Mi", "1Gi", "4Gi"] if tight else ["8Gi", "16Gi"])),
        "pods": draw(one_of(["0", "1", "2", "5"] if tight else ["110"])),
        "example.com/gpu": draw(one_of(["0", "1", "2"] if tight else ["8"])),
        "ephemeral-storage": draw(one_of(["1Gi", "10Gi"] if tight else ["100Gi"])),
    }
    if tight and draw(st.booleans()):
        del room["example.com/gpu"]
    return {
        "metadata": {"name": name, "labels": labels, "resourceVersion": str(draw(st.integers(1, 99)))},
        "spec": {
            "taints": draw(lists(TAINT, 2)) if "taints" in themes else [],
            **({"unschedulable": True} if "cordons" in themes and draw(st.booleans()) else {}),
        },
        "status": {
            "allocatable": room,
            "conditions": [draw(CONDITION)] if "cordons" in themes else [],
            "images": draw(lists(_IMAGE, 2)) if "images" in themes else [],
        },
    }


_IMAGE = st.fixed_dictionaries(
    {
        "names": one_of([["pause:latest"], ["web:1"]]),
        "sizeBytes": st.integers(1, 2000).map(lambda mb: mb * 2**20),
    }
)

EXPRESSION = one_of(
    [
        {"key": "disk", "operator": "In", "values": ["ssd"]},
        {"key": "disk", "operator": "NotIn", "values": ["ssd"]},
        {"key": "disk", "operator": "Exists"},
        {"key": "disk", "operator": "DoesNotExist"},
        {"key": "size", "operator": "Gt", "values": ["4"]},
        {"key": "size", "operator": "Lt", "values": ["6"]},
        {"key": ZONE, "operator": "In", "values": ["zone-a", "zone-b", "nowhere"]},
    ]
)
FIELD = one_of(
    [
        {"key": "metadata.name", "operator": "In", "values": ["node-0"]},
        {"key": "metadata.name", "operator": "NotIn", "values": ["node-0"]},
    ]
)
NODE_TERM = some_of({"matchExpressions": lists(EXPRESSION, 2), "matchFields": lists(FIELD, 1)})
NODE_AFFINITY = some_of(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(NODE_TERM, min_size=1, max_size=2)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": NODE_TERM}), 2
        ),
    }
)
POD_LABELS = some_of(
    {
        "app": one_of(["web", "web", "db"]),
        "tier": one_of(["front", "back"]),
        "pod-template-hash": one_of(["1", "2"]),
    }
)
SELECTOR = one_of(
    [
        {"matchLabels": {"app": "web"}},
        {"matchLabels": {"app": "db"}},
        {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
        {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        {},
        None,
    ]
)
TOPOLOGY = one_of([ZONE, HOSTNAME, REGION])
POD_TERM = st.builds(
    lambda base, extra: {**base, **extra},
    st.fixed_dictionaries({"topologyKey": TOPOLOGY, "labelSelector": SELECTOR}),
    some_of(
        {
            "namespaces": one_of([["n1"], ["n1", "n2"], []]),
            "namespaceSelector": one_of([{}, {"matchLabels": {"team": "red"}}]),
            "matchLabelKeys": one_of([["pod-template-hash"]]),
            "mismatchLabelKeys": one_of([["tier"]]),
        }
    ),
)
POD_AFFINITY = some_of(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": lists(POD_TERM, 2),
        "preferredDuringSchedulingIgnoredDuringExecution": lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": POD_TERM}), 2
        ),
    }
)
LIKES = st.fixed_dictionaries(
    {
        "preferredDuringSchedulingIgnoredDuringExecution": lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": POD_TERM}), 2
        )
    }
)
SPREAD = st.builds(
    lambda base, extra: {**base, **extra},
    st.fixed_dictionaries(
        {
            "topologyKey": TOPOLOGY,
            "maxSkew": one_of([1, 1, 2, 3]),
            "whenUnsatisfiable": one_of(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": SELECTOR,
        }
    ),
    some_of(
        {
            "minDomains": st.integers(1, 4),
            "nodeAffinityPolicy": one_of(["Honor", "Ignore"]),
            "nodeTaintsPolicy": one_of(["Honor", "Ignore"]),
            "matchLabelKeys": one_of([["pod-template-hash"]]),
        }
    ),
)
PORT = st.builds(
    lambda base, extra: {**base, **extra},
    st.fixed_dictionaries({"hostPort": one_of([80, 443])}),
    some_of({"protocol": one_of(["TCP", "UDP"]), "hostIP": one_of(["0.0.0.0", "127.0.0.1", "10.0.0.1"])}),
)
REQUESTS = some_of(
    {
        "cpu": one_of(["0", "50m", "200m", "1", "3"]),
        "memory": one_of(["0", "64Mi", "1Gi", "3Gi"]),
        "example.com/gpu": one_of(["1"]),
        "ephemeral-storage": one_of(["2Gi"]),
    }
)
CONTAINER = st.builds(
    lambda image, requests, ports: {"image": image, "resources": {"requests": requests}, "ports": ports},
    one_of(["pause", "web:1"]),
    REQUESTS,
    lists(PORT, 1),
)


def only(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


REQUIRED = only(requiredDuringSchedulingIgnoredDuringExecution=st.lists(POD_TERM, min_size=1, max_size=2))
SPECS = {
    "node affinity": only(nodeSelector=one_of([{"disk": "ssd"}, {ZONE: "zone-a"}]))
    | only(affinity=only(nodeAffinity=NODE_AFFINITY)),
    "taints": only(tolerations=lists(TOLERATION, 2)),
    "cordons": only(tolerations=lists(TOLERATION, 2)),
    "spread": only(topologySpreadConstraints=st.lists(SPREAD, min_size=1, max_size=2)),
    "pod affinity": only(affinity=only(podAffinity=REQUIRED)) | only(affinity=only(podAntiAffinity=REQUIRED)),
    "neighbours": only(affinity=only(podAntiAffinity=POD_AFFINITY, podAffinity=LIKES)),
    "tightness": some_of({"overhead": one_of([{"cpu": "50m"}])}),
    "claims": some_of({"priority": one_of([0, 100])}),
    "volumes": only(volumes=one_of([[{"persistentVolumeClaim": {"claimName": "data"}}]])),
}


@st.composite
def pods(draw: st.DrawFn, name: str, node: str | None, themes: set[str]) -> Obj:
    meta: Obj = {
        "name": name,
        "uid": f"uid-{name}",
        "namespace": draw(one_of(NAMESPACES)),
        "labels": draw(POD_LABELS),
    }
    if draw(st.integers(0, 2)) == 2:
        meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-1", "controller": True}]
    if "classes" in themes and draw(st.booleans()):
        meta["annotations"] = {"fathom.dev/capacity-class": draw(one_of(["recovery", "shared"]))}
    containers = [draw(CONTAINER) for _ in range(draw(st.integers(1, 2)))]
    if "ports" not in themes:
        containers = [{**one, "ports": []} for one in containers]
    spec: Obj = {"containers": containers}
    for theme in THEMES:
        if theme in themes and theme in SPECS and draw(st.integers(0, 3)) < 3:
            drawn = draw(SPECS[theme])
            affinity = {**spec.get("affinity", {}), **drawn.get("affinity", {})}
            spec = {**spec, **drawn, "affinity": affinity}
    if node is not None:
        spec["nodeName"] = node
        if draw(st.integers(0, 5)) == 5:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "spec": spec, "status": {}}


RESERVED = st.sets(
    one_of(
        [
            Reserved("recovery", (("pool", "red"),), tenants=("n1",)),
            Reserved("shared", (("pool", "blue"),), kept=(("cpu", 500), ("pods", 1)), tenants=("*",)),
            Reserved("spare", (("disk", "hdd"),), tenants=()),
        ]
    ),
    max_size=3,
)

LIMITS = lists(
    st.builds(
        QuotaLimit,
        one_of(
            [(("cpu", 1000),), (("pods", 2),), (("cpu", 4000), ("memory", 2 * GI)), (("example.com/gpu", 1),)]
        ),
        maybe(one_of(ZONES)),
        maybe(one_of(["", "recovery"])),
    ),
    2,
)


VOLUMES = one_of(
    [
        Volume(),
        Volume(node_terms=(NodeTerm((Requirement(ZONE, IN, ("zone-a", "zone-b")),)),)),
        Volume(zones=((ZONE, ("zone-b", "zone-c")),)),
        Volume(unbound=True),
        Volume(missing=True),
        Volume(delayed=DelayedClaim(offers=((NodeTerm((Requirement(ZONE, IN, ("zone-a",)),)),),))),
        Volume(delayed=DelayedClaim(offers=(None,))),
        Volume(delayed=DelayedClaim()),
        Volume(delayed=DelayedClaim(selected="node-1")),
    ]
)
AVOIDED = one_of(
    [
        (Avoided("ns/o", ZONE, ("zone-a",)),),
        (Avoided("ns/o", ZONE, ("zone-a", "zone-b"), ((REGION, "west"),)),),
    ]
)
ALLOWED = one_of([(), (Allowed("ns/a", "recovery"),), (Allowed("ns/a", "spare", 1, ((ZONE, "zone-a"),)),)])


@st.composite
def contexts(draw: st.DrawFn, tenant: str, themes: set[str]) -> PlacementContext:
    return PlacementContext(
        policy=Policy(
            name="p",
            max_zone_skew=draw(st.integers(1, 2)) if "skew" in themes else None,
            regions=draw(one_of([(), ("west",)])),
            default_spread=draw(st.booleans()),
            weights=draw(one_of([{}, {"MostAllocated": 2, "LeastAllocated": 0}])),
            max_view_age_ms=1000 if "freshness" in themes else None,
        ),
        quota=Quota(tenant, tuple(draw(LIMITS))) if "quota" in themes else None,
        avoided=draw(AVOIDED) if "overrides" in themes else (),
        allowed=draw(ALLOWED) if "classes" in themes else (),
        trust_lost=draw(one_of([{"node-0": 100}, {"node-0": 30, "node-1": 60}])) if "trust" in themes else {},
        refused_nodes=draw(one_of([(), ("node-0",)])) if "trust" in themes else (),
        volumes={("n1", "data"): draw(VOLUMES)} if "volumes" in themes else {},
        view_age_ms=draw(one_of([0, 5000])) if "freshness" in themes else 0,
        tie_seed=draw(st.integers(0, 1000)),
    )


class World(msgspec.Struct, frozen=True):
    nodes: list[Obj]
    pods: list[Obj]  # Bound, some to nodes that are not there.
    newcomer: Obj
    namespaces: dict[str, dict[str, str]]
    classes: tuple[Reserved, ...]
    claims: dict[str, tuple[str, dict[str, int], int]]
    context: PlacementContext

    @property
    def tenant(self) -> str:
        return namespace(self.newcomer)

    def cluster(self) -> Cluster:
        return Cluster(self.nodes, self.pods, self.namespaces, self.classes, self.claims)

    def view(self) -> PodView:
        return pod_view(self.newcomer, tenant=self.tenant)


@st.composite
def worlds(draw: st.DrawFn, focus: str, nodes_max: int = 5, pods_max: int = 6) -> World:
    themes = {focus} | draw(st.sets(one_of(THEMES), max_size=2))
    # Mostly enough of both that they have something to do with each other.
    count = draw(st.integers(3, nodes_max) | st.integers(0, nodes_max))
    many = draw(st.integers(3, pods_max) | st.integers(0, pods_max))
    listed = [draw(nodes(f"node-{i}", themes)) for i in range(count)]
    places = [one["metadata"]["name"] for one in listed] + ["nowhere"]
    bound = [draw(pods(f"pod-{i}", draw(one_of(places)), themes)) for i in range(many)]
    newcomer = draw(pods("new", None, themes))
    claims = {
        holder: (
            draw(one_of(places)),
            {"cpu": draw(one_of([500, 4000])), "pods": 1},
            draw(one_of([50, 2**31])),
        )
        for holder in sorted(draw(st.sets(one_of(["uid-new", "somebody"]), max_size=2)))
    }
    return World(
        listed,
        bound,
        newcomer,
        {"n1": {"team": "red"}, "n2": draw(one_of([{}, {"team": "red"}]))},
        tuple(sorted(draw(RESERVED), key=lambda one: one.name)) if "classes" in themes else (),
        claims if "claims" in themes else {},
        draw(contexts(namespace(newcomer), themes)),
    )


def table_of(world: World) -> NodeTable:
    table = NodeTable()
    for name, labels in world.namespaces.items():
        table.put_namespace(name, labels)
    table.set_reserved(world.classes)
    for one in world.nodes:
        table.put_node(one)
    for one in world.pods:
        table.put_pod(pod_view(one, tenant=namespace(one)))
    for holder, (node, needs, priority) in world.claims.items():
        table.claim(holder, node, tuple(sorted(needs.items())), priority=priority)
    return table
