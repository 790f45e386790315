"""What a scheduler knows: which policy, quota and override concern a pod, and when that changes."""

from __future__ import annotations

from typing import Any

from fathom.model.objects import Key
from fathom.model.trust import ANNOTATION
from fathom.schedule.decide.context import Allowed, Avoided, Quota, QuotaLimit
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.resolve import volume_of
from fathom.schedule.loop.bind_requests import BindAnswer, answers_in
from fathom.schedule.loop.cache_updates import is_only_bound
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.schedule.policy_rollout.observed import LeaseTerm, observed

S = 1_000_000_000
CREATED = "2026-01-01T00:00:00Z"
NOW = 1_767_225_600 * S  # The same moment.
Obj = dict[str, Any]


def own(kind: str, name: str, spec: Obj, *, namespace: str = "", status: Obj | None = None) -> Obj:
    meta = {"name": name, "namespace": namespace, "resourceVersion": "7", "creationTimestamp": CREATED}
    return {"kind": kind, "metadata": {**meta, "generation": 1}, "spec": spec, "status": status or {}}


def pod(known: ClusterView, name: str = "web-1", *, owner: str = "web", **given: Any) -> PodView:
    references = [{"kind": "ReplicaSet", "name": owner, "uid": "o", "controller": True}] if owner else []
    meta = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": references, **given}
    return known.view({"metadata": meta, "spec": {"containers": []}})


def test_a_pods_tenant_is_its_namespaces_label() -> None:
    known = ClusterView()
    assert pod(known).tenant == "shop"
    space = {"metadata": {"name": "shop", "labels": {"fathom.dev/tenant": "risk"}}}
    known.put("Namespace", None, space)
    assert pod(known).tenant == "risk"
    assert known.tenant_changed(None, space)


def test_the_quota_of_its_tenant_concerns_a_pod() -> None:
    known = ClusterView()
    limits = [{"zone": "c", "resources": {"cpu": "1500m"}}]
    assert known.put("TenantQuota", None, own("TenantQuota", "shop", {"limits": limits})) == ("QuotaChanged",)
    context = known.context(pod(known), now_ns=NOW)
    assert context.quota == Quota("shop", (QuotaLimit((("cpu", 1500),), "c", None),), 7)


def test_a_quota_whose_usage_alone_was_counted_anew_wakes_nobody() -> None:
    known = ClusterView()
    quota = own("TenantQuota", "shop", {"limits": []})
    known.put("TenantQuota", None, quota)
    assert known.put("TenantQuota", quota, {**quota, "status": {"used": [{"zone": "c"}]}}) == ()


def test_the_narrowest_rollout_says_which_policy_holds() -> None:
    known = ClusterView()
    for name in ("wide", "narrow"):
        known.put("SchedulingPolicy", None, own("SchedulingPolicy", name, {"maxZoneSkew": 1}))
    known.put("PolicyRollout", None, own("PolicyRollout", "a", {"from": "wide", "to": "x"}))
    assert known.context(pod(known), now_ns=NOW).policy.name == "wide"
    spec = {"from": "narrow", "to": "x", "scope": {"workloads": ["web"]}}
    known.put("PolicyRollout", None, own("PolicyRollout", "b", spec))
    assert known.context(pod(known), now_ns=NOW).policy.name == "narrow"
    assert known.context(pod(known, "other", owner="other"), now_ns=NOW).policy.name == "wide"


def test_a_workload_is_in_the_canary_as_a_whole_and_always_the_same_ones() -> None:
    known = ClusterView()
    for name in ("v4", "v5"):
        known.put("SchedulingPolicy", None, own("SchedulingPolicy", name, {}))
    status = {"phase": "Canary", "active": "v4", "canary": "v5", "percent": 30}
    known.put("PolicyRollout", None, own("PolicyRollout", "r", {"from": "v4", "to": "v5"}, status=status))

    def chosen(number: int) -> str:
        return known.context(pod(known, f"p{number}", owner=f"w{number}"), now_ns=NOW).policy.name

    first = [chosen(number) for number in range(200)]
    assert first == [chosen(number) for number in range(200)]
    assert 40 <= first.count("v5") <= 80


def test_an_override_holds_until_it_expires_and_its_end_is_news() -> None:
    known = ClusterView()
    changes = {"avoidZones": ["a"], "allowReservedCapacityClass": "recovery", "reservedReplicas": 2}
    spec = {"target": "workload/web", "scope": "region/eu", "expiresAfter": "45m", "changes": changes}
    known.put("SchedulerOverride", None, own("SchedulerOverride", "o", spec, namespace="shop"))
    scope = (("topology.kubernetes.io/region", "eu"),)
    context = known.context(pod(known), now_ns=NOW)
    assert context.avoided == (Avoided("shop/o", "topology.kubernetes.io/zone", ("a",), scope),)
    assert context.allowed == (Allowed("shop/o", "recovery", 2, scope),)
    assert known.context(pod(known, "x", owner="other"), now_ns=NOW).avoided == ()
    assert known.passing(now_ns=NOW + 44 * 60 * S) == []
    assert known.passing(now_ns=NOW + 45 * 60 * S) == [(Key("shop", "o"), "ended")]
    assert known.context(pod(known), now_ns=NOW + 45 * 60 * S).avoided == ()


def test_an_override_that_a_wrong_clock_had_ended_ends_again_when_the_clock_is_right() -> None:
    known = ClusterView()
    for name, lasts in (("first", "10m"), ("second", "45m")):
        spec = {"target": "workload/web", "expiresAfter": lasts, "changes": {"avoidZones": [name]}}
        known.put("SchedulerOverride", None, own("SchedulerOverride", name, spec, namespace="shop"))

    def avoided(minutes: int) -> list[str]:
        return [each.override for each in known.context(pod(known), now_ns=NOW + minutes * 60 * S).avoided]

    assert [avoided(minutes) for minutes in (60, 5, 20, 5, 20, 60)] == [
        [],
        ["shop/first", "shop/second"],
        ["shop/second"],
        ["shop/first", "shop/second"],
        ["shop/second"],
        [],
    ]


def test_it_is_news_that_an_override_is_in_force_again_by_a_clock_that_was_set_back() -> None:
    known = ClusterView()
    for name, lasts in (("first", "10m"), ("second", "45m")):
        spec = {"target": "workload/web", "expiresAfter": lasts, "changes": {"avoidZones": [name]}}
        known.put("SchedulerOverride", None, own("SchedulerOverride", name, spec, namespace="shop"))
    first, second = Key("shop", "first"), Key("shop", "second")
    looks = [known.passing(now_ns=NOW + minutes * 60 * S) for minutes in (60, 60, 20, 5, 20, 60)]
    assert looks == [
        [(first, "ended"), (second, "ended")],
        [],
        [(second, "in force again")],
        [(first, "in force again")],
        [(first, "ended")],
        [(second, "ended")],
    ]


def test_an_override_that_is_put_off_after_its_end_ends_once_more() -> None:
    known = ClusterView()
    spec = {"target": "workload/web", "expiresAfter": "10m", "changes": {"avoidZones": ["a"]}}
    before = own("SchedulerOverride", "o", spec, namespace="shop")
    known.put("SchedulerOverride", None, before)
    assert known.passing(now_ns=NOW + 20 * 60 * S) == [(Key("shop", "o"), "ended")]
    after = own("SchedulerOverride", "o", {**spec, "expiresAfter": "45m"}, namespace="shop")
    known.put("SchedulerOverride", before, after)
    assert known.passing(now_ns=NOW + 20 * 60 * S) == []  # The change was an event by itself.
    assert known.passing(now_ns=NOW + 60 * 60 * S) == [(Key("shop", "o"), "ended")]


def test_pods_that_an_override_has_let_in_count_against_it() -> None:
    known = ClusterView()
    changes = {"allowReservedCapacityClass": "recovery", "reservedReplicas": 2}
    spec = {"target": "workload/web", "expiresAfter": "45m", "changes": changes}
    known.put("SchedulerOverride", None, own("SchedulerOverride", "o", spec, namespace="shop"))
    meta = {"name": "in", "namespace": "shop", "uid": "in", "annotations": {"fathom.dev/overrides": "shop/o"}}
    known.view({"metadata": meta, "spec": {"nodeName": "n", "containers": []}})
    assert known.context(pod(known), now_ns=NOW).allowed[0].left == 1
    known.put("SchedulerOverride", None, own("SchedulerOverride", "again", spec, namespace="shop"))
    elsewhere = {**spec, "scope": "zone/b"}
    known.put("SchedulerOverride", None, own("SchedulerOverride", "there", elsewhere, namespace="shop"))
    others = {"shop/again": 1, "shop/o": 1, "shop/there": 2}
    assert {each.override: each.left for each in known.context(pod(known), now_ns=NOW).allowed} == others
    for name in ("again", "there"):
        gone = own("SchedulerOverride", name, spec, namespace="shop")
        known.put("SchedulerOverride", gone, None)
    known.gone("in")
    assert known.context(pod(known), now_ns=NOW).allowed[0].left == 2


def test_a_placed_pod_counts_where_the_ledger_has_charged_it_whatever_became_of_its_namespace() -> None:
    known = ClusterView()
    labels = {"topology.kubernetes.io/zone": "east"}
    known.put("Node", None, {"metadata": {"name": "n", "labels": labels}})
    space: Obj = {"metadata": {"name": "shop", "labels": {"fathom.dev/tenant": "risk"}}}
    known.put("Namespace", None, space)
    placed = {"metadata": {"name": "p", "namespace": "shop", "uid": "p"}, "spec": {"nodeName": "n"}}
    known.put_pod(placed)
    assert known.table.tally.used == {"risk": {("east", ""): {"pods": 1}}}
    charged = {**placed["metadata"], "annotations": {"fathom.dev/account": "risk/west/"}}
    known.put("Namespace", space, {"metadata": {"name": "shop"}})
    known.put_pod({**placed, "metadata": charged})
    assert known.table.tally.used == {"risk": {("west", ""): {"pods": 1}}}
    moved = {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "north"}}}
    known.put("Node", None, moved)
    assert known.table.tally.used == {"risk": {("west", ""): {"pods": 1}}}
    known.table.remove_pod("p")
    assert known.table.tally.used == {}


def test_trust_that_a_node_has_lost_is_read_from_it_and_is_news() -> None:
    def gray(points: int) -> Obj:
        notes = {ANNOTATION: f'{{"points":{points}}}'} if points else {}
        return {"metadata": {"name": "gray", "annotations": notes}}

    known = ClusterView()
    assert known.put("Node", None, gray(34)) == ("TrustChanged", "NodeAdded")
    assert known.context(pod(known), now_ns=NOW).trust_lost == {"gray": 34}
    assert known.put("Node", gray(34), gray(34)) == ()
    assert known.put("Node", gray(34), gray(0)) == ("TrustChanged",)
    assert known.context(pod(known), now_ns=NOW).trust_lost == {}


def test_a_context_is_the_same_object_until_something_in_it_changes() -> None:
    known = ClusterView()
    before = known.context(pod(known), now_ns=NOW)
    assert known.context(pod(known, "web-2"), now_ns=NOW) is before
    doubting = known.context(pod(known), now_ns=NOW, refused_nodes=("n1",))
    assert doubting.refused_nodes == ("n1",)
    assert known.context(pod(known), now_ns=NOW, refused_nodes=("n1",)) is doubting


def test_what_a_reservation_holds_is_free_for_nobody_else() -> None:
    known = ClusterView()
    room = {"cpu": "4", "pods": "10"}
    known.put("Node", None, {"metadata": {"name": "n"}, "status": {"allocatable": room}})
    spec = {"nodeName": "n", "resources": {"cpu": "3"}, "intent": "recovery"}
    held = own("Reservation", "r", spec, namespace="shop")
    known.put("Reservation", None, held)
    container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    meta = {"name": "p", "namespace": "shop", "uid": "p"}
    view = known.view({"metadata": meta, "spec": {"containers": [container]}})
    assert known.decider.place(view, known.context(view, now_ns=NOW)).node is None
    assert known.put("Reservation", held, {**held, "status": {"phase": "Released"}}) == ("PodGone",)
    assert known.decider.place(view, known.context(view, now_ns=NOW)).node == "n"


def test_a_claim_without_a_volume_is_said_to_be_so() -> None:
    assert volume_of(None, {}).missing
    assert volume_of({"spec": {}}, {}).unbound
    labels = {"topology.kubernetes.io/zone": "a__b"}
    found = volume_of({"spec": {"volumeName": "v"}}, {"v": {"metadata": {"labels": labels}}})
    assert found.zones == (("topology.kubernetes.io/zone", ("a", "b")),)


def test_a_scheduler_says_once_that_its_caches_have_reached_an_activation() -> None:
    rollout = own("PolicyRollout", "r", {}, status={"activationRevision": 20})
    assert observed(rollout, who="s", reached=19, now="t") is None
    patch = observed(rollout, who="s", reached=21, now="t")
    said = {"controller": "s", "observedGeneration": 1, "revision": 21, "time": "t"}
    assert patch == {"metadata": {"resourceVersion": "7"}, "status": {"observedBy": [said]}}
    told = {**rollout, "status": {"activationRevision": 20, "observedBy": [said]}}
    assert observed(told, who="s", reached=30, now="t") is None
    assert observed(told, who="other", reached=30, now="t") is not None


def test_a_scheduler_that_begins_to_lead_says_how_far_it_is_itself() -> None:
    said = {"controller": "s-1", "revision": 21, "lease": "ns/s", "epoch": 1}
    rollout = own("PolicyRollout", "r", {}, status={"activationRevision": 20, "observedBy": [said]})

    def entries(who: str, reached: int, term: LeaseTerm) -> list[tuple[str, int]] | None:
        patch = observed(rollout, who=who, reached=reached, now="t", term=term)
        told = None if patch is None else patch["status"]["observedBy"]
        return None if told is None else [(one["controller"], one["revision"]) for one in told]

    assert entries("s-1", 30, LeaseTerm("ns/s", 1)) is None
    assert entries("s-1", 15, LeaseTerm("ns/s", 2)) == [("s-1", 15)]
    assert entries("s-2", 15, LeaseTerm("ns/s", 2)) == [("s-2", 15)]
    assert entries("t-1", 15, LeaseTerm("ns/t", 1)) == [("s-1", 21), ("t-1", 15)]


def test_an_answer_that_cannot_be_read_leaves_the_outcome_unknown() -> None:
    good = {"status": "Bound", "revision": "12"}
    refused = {"status": "Refused", "check": "NodeFull", "message": "no", "currentRevision": 9}
    assert answers_in({"results": [good, refused]}, 2) == [
        BindAnswer("Bound", 12),
        BindAnswer("Refused", 0, "NodeFull", "no", 9),
    ]
    for odd in ({}, {"results": [good]}, {"results": [good, 7]}, {"results": [good, {"status": "?"}]}):
        assert answers_in(odd, 2)[1].status == "Unknown"


def test_a_pod_that_came_to_its_node_is_told_from_one_that_changed_otherwise() -> None:
    before = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [1]}, "status": {}}
    after = {**before, "spec": {"containers": [1], "nodeName": "n"}}
    assert is_only_bound(before, after, "n")
    assert not is_only_bound(before, after, "m")
    assert not is_only_bound(after, after, "n")
    assert not is_only_bound(before, {**after, "spec": {"containers": [2], "nodeName": "n"}}, "n")
    assert not is_only_bound(before, {**after, "metadata": {"labels": {"a": "c"}}}, "n")
    assert not is_only_bound(before, {**after, "status": {"phase": "Failed"}}, "n")
