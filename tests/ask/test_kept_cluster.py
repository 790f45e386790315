"""The scheduler's view that is kept between questions answers as a new one, after any stream of changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.explain.builders import NOW_NS, Obj, at, lease, node, own, pod

from fathom.api.watch_cache import WatchCache
from fathom.ask.kept_cluster import RESOURCES, STEP_OBJECTS, KeptCluster
from fathom.ask.objects import CachedObjects
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.case import cluster_of
from fathom.explain.why.pod import explain
from fathom.kinds.reservation import HOLDER_UID
from fathom.kinds.scheduler_override import USED_OVERRIDES
from fathom.model.body import Body, canonical
from fathom.model.objects import key_of
from fathom.schedule.decide.rules import RULES
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.loop.watched_kinds import KINDS, STORAGE_CLASS
from fathom.store.protocol import Batch, Change, Entry

NODES, PODS = ("a", "b", "c", "d"), ("p", "q", "r", "s")
ZONE = "topology.kubernetes.io/zone"

Draw = st.DrawFn
Write = tuple[str, str, Obj | None]  # Resource, path, object; None: deleted.


class Cluster:
    """An API server's cache, written by changes as the store delivers them."""

    def __init__(self) -> None:
        self.cache = WatchCache()
        self._entries: dict[str, Entry] = {}
        self._revision = 1
        self.write("leases.coordination.k8s.io", "fathom-system/scheduler", lease())

    def write(self, resource: str, path: str, obj: Obj | None) -> None:
        key = f"/registry/{resource}/{path}"
        previous = self._entries.pop(key, None)
        if previous is None and obj is None:
            return
        self._revision += 1
        entry = None
        if obj is not None:
            created = previous.created if previous is not None else self._revision
            entry = self._entries[key] = Entry(key, Body(canonical(obj)), self._revision, created)
        change = Change(key, self._revision, entry, previous)
        self.cache.apply(Batch((change,), self._revision))

    def objects(self) -> CachedObjects:
        return CachedObjects(self.cache)


@st.composite
def nodes(draw: Draw) -> Write:
    name = draw(st.sampled_from(NODES))
    labels = {ZONE: draw(st.sampled_from(["east", "west"]))}
    taints = draw(st.sampled_from([[], [{"key": "k", "value": "v", "effect": "NoSchedule"}]]))
    obj = node(name, draw(st.sampled_from(["1", "2", "4"])), labels=labels, taints=taints)
    return "nodes", name, draw(st.sampled_from([None, obj, obj]))


@st.composite
def pods(draw: Draw) -> Write:
    name, uid = draw(st.sampled_from(PODS)), draw(st.sampled_from(["1", "2"]))
    on = draw(st.sampled_from(["", "", *NODES]))
    nominated = draw(st.sampled_from(["", "", "a", "b"])) if not on else ""
    status = {
        "phase": draw(st.sampled_from(["Pending", "Running", "Failed"])),
        "nominatedNodeName": nominated,
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"tier": "web"}},
    }
    uses = {USED_OVERRIDES: "shop/calm"} if draw(st.booleans()) else {}
    obj = pod(
        name,
        cpu=draw(st.sampled_from(["500m", "1", "3"])),
        on=on,
        status=status,
        meta={"uid": f"{name}-{uid}", "labels": {"tier": "web"}, "annotations": uses},
        priority=draw(st.sampled_from([0, 0, 10])),
        topologySpreadConstraints=draw(st.sampled_from([[], [spread]])),
    )
    return "pods", f"shop/{name}", draw(st.sampled_from([None, obj, obj, obj]))


@st.composite
def others(draw: Draw) -> Write:
    tenant = draw(st.sampled_from(["shop", "bank"]))
    namespace = {"metadata": {"name": "shop", "labels": {"fathom.dev/tenant": tenant}}}
    limits = [{"resources": {"cpu": draw(st.sampled_from(["1", "8"]))}}]
    quota = own("TenantQuota", tenant, limits=limits)
    allow = {"allowReservedCapacityClass": "gold", "reservedReplicas": draw(st.sampled_from([1, 2]))}
    override = own(
        "SchedulerOverride", "calm", namespace="shop", target=f"workload/{draw(st.sampled_from(PODS))}",
        reason="r", expiresAfter="1h", changes=draw(st.sampled_from([{"avoidNodes": ["a"]}, allow])),
        status={"active": True, "expiresAt": at(draw(st.sampled_from([-9, 9])))},
    )  # fmt: skip
    gold = own("CapacityClass", "gold", nodeSelector={ZONE: draw(st.sampled_from(["east", "west"]))})
    holder = {HOLDER_UID: draw(st.sampled_from(["p-1", "q-1", "z-1"]))}
    room = own(
        "Reservation", "room", namespace="shop", nodeName=draw(st.sampled_from(["a", "b"])),
        resources={"cpu": "1"}, status={"phase": draw(st.sampled_from(["Active", "Released"]))},
    )  # fmt: skip
    room["metadata"]["annotations"] = holder
    written: list[tuple[str, str, Obj]] = [
        ("namespaces", "shop", namespace),
        ("tenantquotas.fathom.dev", tenant, quota),
        ("scheduleroverrides.fathom.dev", "shop/calm", override),
        ("scheduleroverrides.fathom.dev", "shop/calm", override),
        ("capacityclasses.fathom.dev", "gold", gold),
        ("reservations.fathom.dev", "shop/room", room),
    ]
    resource, path, obj = draw(st.sampled_from(written))
    return resource, path, draw(st.sampled_from([None, obj, obj]))


def answers(cluster: Cluster, view: ClusterView) -> list[object]:
    """What each pod is told, and a pod that asks for room on every node."""
    objects = cluster.objects()
    return [
        msgspec.to_builtins(
            explain(
                ObjectRef("pods", *key_of(each)),
                Evidence(subject=ObjectRef("pods", *key_of(each)), objects=objects, now_ns=NOW_NS),
                cluster=view,
            )
        )
        for each in objects.list("pods")
    ]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(nodes() | pods() | pods() | others(), max_size=6), min_size=2, max_size=8))
def test_after_any_stream_of_changes_the_answers_are_those_of_a_new_view(stream: list[list[Write]]) -> None:
    cluster, kept = Cluster(), KeptCluster(lambda: RULES)
    for writes in stream:
        for write in writes:
            cluster.write(*write)
        objects = cluster.objects()
        with kept.view_of(objects) as view:
            assert answers(cluster, view) == answers(cluster, cluster_of(objects))


BIG_POD = {"cpu": "3", "priority": 10}
OVERRIDE = own(
    "SchedulerOverride", "calm", namespace="shop", target="workload/p", reason="r", expiresAfter="1h",
    changes={"allowReservedCapacityClass": "gold", "reservedReplicas": 1},
    status={"active": True, "expiresAt": at(-9)},
)  # fmt: skip
EAST = {ZONE: "east"}


def in_shop(name: str, **fields: Any) -> Write:
    return "pods", f"shop/{name}", pod(name, **fields)


def nominated(name: str, node: str, phase: str = "Pending") -> Write:
    status = {"phase": phase, "nominatedNodeName": node}
    return in_shop(name, status=status, **BIG_POD)


def tenant(name: str) -> Write:
    return "namespaces", "shop", {"metadata": {"name": "shop", "labels": {"fathom.dev/tenant": name}}}


def quota(name: str, cpu: str) -> Write:
    return "tenantquotas.fathom.dev", name, own("TenantQuota", name, limits=[{"resources": {"cpu": cpu}}])


# Each a first state and the changes to it, for which a careless update gives another answer than a new view.
STORIES: dict[str, tuple[list[Write], list[Write]]] = {
    "a pod with an earlier name is nominated later": (
        [("nodes", "a", node("a")), nominated("q", "a"), in_shop("p", **BIG_POD)],
        [nominated("p", "a")],
    ),
    "a nominated pod has failed": (
        [("nodes", "a", node("a")), nominated("q", "a"), in_shop("p", cpu="3")],
        [nominated("q", "a", "Failed")],
    ),
    "a namespace gets another tenant": (
        [("nodes", "a", node("a")), tenant("shop"), quota("shop", "9"), quota("bank", "1"),
         in_shop("q", on="a"), in_shop("p")],
        [tenant("bank")],
    ),
    "a pod that used an override is gone": (
        [("nodes", "a", node("a", labels=EAST)),
         ("capacityclasses.fathom.dev", "gold", own("CapacityClass", "gold", nodeSelector=EAST)),
         ("scheduleroverrides.fathom.dev", "shop/calm", OVERRIDE),
         in_shop("q", on="a", meta={"annotations": {USED_OVERRIDES: "shop/calm"}}), in_shop("p")],
        [("pods", "shop/q", None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_a_change_that_could_be_overlooked_is_not(story: str) -> None:
    cluster, kept = Cluster(), KeptCluster(lambda: RULES)
    told = []
    for writes in STORIES[story]:
        for write in writes:
            cluster.write(*write)
        objects = cluster.objects()
        with kept.view_of(objects) as view:
            told.append(answers(cluster, view))
            assert told[-1] == answers(cluster, cluster_of(objects))
    assert told[0] != told[1]


def test_an_override_counts_until_it_has_expired_by_the_time_of_the_question() -> None:
    cluster, kept = Cluster(), KeptCluster(lambda: RULES)
    override = own(
        "SchedulerOverride", "calm", namespace="shop", target="workload/web", reason="r", expiresAfter="1h",
        changes={"avoidNodes": ["a"]}, status={"active": True, "expiresAt": at(-9)},
    )  # fmt: skip
    cluster.write("scheduleroverrides.fathom.dev", "shop/calm", override)
    cluster.write("nodes", "a", node("a"))
    web = pod("web", meta={"labels": {"app": "web"}})

    def avoided(now_ns: int) -> int:
        with kept.view_of(cluster.objects()) as view:
            return len(view.context(view.view(web), now_ns=now_ns).avoided)

    assert [avoided(NOW_NS), avoided(NOW_NS + 10 * 10**9), avoided(NOW_NS)] == [1, 0, 1]


def test_the_view_is_the_same_one_while_only_pods_and_nodes_change() -> None:
    cluster, kept = Cluster(), KeptCluster(lambda: RULES)

    def view() -> ClusterView:
        with kept.view_of(cluster.objects()) as current:
            return current

    for name in ("a", "c"):
        cluster.write("nodes", name, node(name))
    first = view()
    cluster.write("pods", "shop/p", pod("p", on="a"))
    cluster.write("nodes", "a", node("a", "2"))
    cluster.write("nodes", "d", node("d"))
    assert view() is first
    cluster.write("nodes", "b", node("b"))  # Between the others: of equal nodes the order decides.
    second = view()
    assert second is not first
    assert [second.table.names[row] for row in sorted(second.table.row_of.values())] == ["a", "b", "c", "d"]


def test_after_an_error_in_an_answer_the_view_is_made_anew() -> None:
    cluster, kept = Cluster(), KeptCluster(lambda: RULES)
    cluster.write("nodes", "a", node("a"))
    cluster.write("pods", "shop/p", pod("p", on="a"))
    views: list[ClusterView] = []

    def fail() -> None:
        with kept.view_of(cluster.objects()) as view:
            views.append(view)
            view.table.lift("uid-p")  # A trial that never puts it back.
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with kept.view_of(cluster.objects()) as view:
        assert view is not views[0]
        assert list(view.table.pods_on[view.table.row_of["a"]]) == ["uid-p"]


def prepared(cluster: Cluster, kept: KeptCluster) -> ClusterView:
    """The view that is made before anybody asks."""
    for _ in kept.prepare(cluster.objects()):
        pass
    assert kept.behind(cluster.objects()) == 0
    with kept.view_of(cluster.objects()) as view:
        return view


def test_a_view_that_was_prepared_is_the_one_that_the_first_question_gets() -> None:
    cluster, kept = Cluster(), KeptCluster(lambda: RULES)
    for name in ("a", "b"):
        cluster.write("nodes", name, node(name))
    for number in range(3 * STEP_OBJECTS):
        cluster.write(*in_shop(f"p-{number}", on="a"))
    assert kept.behind(cluster.objects()) == 2 + 3 * STEP_OBJECTS
    steps = kept.prepare(cluster.objects())
    assert sum(1 for _ in steps) >= 3
    assert kept.behind(cluster.objects()) == 0
    with kept.view_of(cluster.objects()) as first:
        assert answers(cluster, first) == answers(cluster, cluster_of(cluster.objects()))
    cluster.write("nodes", "aa", node("aa"))  # Between the others, so that a question would make it anew.
    second = prepared(cluster, kept)
    assert second is not first
    with kept.view_of(cluster.objects()) as view:
        assert view is second


def test_a_question_in_the_middle_of_a_preparation_keeps_its_own_view() -> None:
    cluster, kept = Cluster(), KeptCluster(lambda: RULES)
    for number in range(2 * STEP_OBJECTS):
        cluster.write(*in_shop(f"p-{number}"))
    steps = kept.prepare(cluster.objects())
    next(steps)
    cluster.write("nodes", "a", node("a"))
    with kept.view_of(cluster.objects()) as asked:
        pass
    for _ in steps:
        pass
    with kept.view_of(cluster.objects()) as view:
        assert view is asked
        assert list(view.table.row_of) == ["a"]


@settings(max_examples=75, deadline=None)
@given(st.lists(st.lists(nodes() | pods() | pods() | others(), max_size=6), min_size=2, max_size=6))
def test_answers_from_a_prepared_view_are_those_of_a_new_one(stream: list[list[Write]]) -> None:
    cluster, kept = Cluster(), KeptCluster(lambda: RULES, step_objects=2)
    for writes in stream:
        for write in writes:
            cluster.write(*write)
        assert answers(cluster, prepared(cluster, kept)) == answers(cluster, cluster_of(cluster.objects()))


def test_every_kind_that_the_scheduler_follows_is_looked_at_and_pods_come_last() -> None:
    assert set(RESOURCES) == {kind.name for kind in (*KINDS, STORAGE_CLASS)}
    assert list(RESOURCES)[-1] == "Pod"
