"""What is reserved for a pod that others make room for: its name, its time, and who may not use it."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.kinds.reservation import Intent, intent_of, reservation_name
from fathom.model.objects import Key, Obj
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.node_table import RoomClaim
from fathom.schedule.decide.place import place
from fathom.schedule.decide.pods import pod_view
from fathom.schedule.loop.cluster_view import HIGHEST, ClusterView, HeldRoom
from fathom.schedule.loop.reservations import is_due, reservation_for, standing_of

NOW_NS = 1_767_225_600 * 10**9  # 2026-01-01T00:00:00Z


def pod(name: str = "vip", *, cpu: str = "2", uid: str = "", **meta: Any) -> Obj:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": uid or f"uid-of-{name}", **meta},
        "spec": {"containers": [container], "priority": 1000},
    }


def replica(uid: str = "a") -> Obj:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
    notes = {"fathom.dev/slot": "42", "fathom.dev/generation": "7"}
    return pod(f"web-{uid}", uid=uid, ownerReferences=[owner], annotations=notes)


def held(phase: str = "", *, of: Obj | None = None, node: str = "n1", at_ns: int = NOW_NS) -> Obj:
    made = reservation_for(of or pod(), node, (), now_ns=at_ns)
    made["metadata"]["uid"] = "r"
    return {**made, "status": {"phase": phase}}


def node(name: str = "n1") -> Obj:
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "9"}}}


def test_the_name_follows_from_the_workload_the_slot_and_the_generation() -> None:
    assert intent_of(replica("a")) == Intent("web", "w", 42, 7)
    assert reservation_name(intent_of(replica("a"))) == reservation_name(intent_of(replica("b")))
    assert reservation_name(intent_of(replica("a"))).startswith("web-42-")


def test_a_pod_without_a_workload_is_its_own() -> None:
    assert intent_of(pod()) == Intent("vip", "uid-of-vip")
    assert reservation_name(intent_of(pod())) != reservation_name(intent_of(pod(uid="of a namesake")))


def test_a_reservation_says_what_is_held_for_whom_and_until_when() -> None:
    victim = pod_view({**pod("victim", uid="v"), "spec": {"nodeName": "n1"}}, tenant="shop")
    made = reservation_for(
        pod(annotations={"fathom.dev/capacity-class": "gold"}), "n1", [victim], now_ns=NOW_NS
    )
    assert made == {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {
            "name": reservation_name(intent_of(pod())),
            "namespace": "shop",
            "annotations": {"fathom.dev/pod": "vip", "fathom.dev/pod-uid": "uid-of-vip"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "vip", "uid": "uid-of-vip"}],
        },
        "spec": {
            "workload": {"name": "vip", "uid": "uid-of-vip", "generation": 0},
            "slot": 0,
            "intent": "preempt",
            "nodeName": "n1",
            "resources": {"cpu": "2", "memory": "1Gi", "pods": "1"},
            "awaits": [{"name": "victim", "namespace": "shop", "uid": "v"}],
            "expiresAt": "2026-01-01T00:02:00Z",
            "capacityClass": "gold",
        },
    }


@pytest.mark.parametrize(
    ("found", "standing"),
    [
        (None, "free"),
        (held(), "ours"),
        (held("Active"), "ours"),
        (held("Released"), "void"),
        (held("Bound"), "void"),
        (held(node="n2"), "void"),
        (held(at_ns=NOW_NS - 120 * 10**9), "void"),
        (held(of=pod(uid="another")), "another's"),
    ],
)
def test_what_has_the_name_is_used_replaced_or_left_alone(found: Obj | None, standing: str) -> None:
    wanted = reservation_for(pod(), "n1", (), now_ns=NOW_NS)
    assert standing_of(found, wanted, now_ns=NOW_NS) == standing


def test_one_that_is_still_needed_gets_more_time_before_it_is_over() -> None:
    assert not is_due(0, now_ns=NOW_NS)
    assert not is_due(NOW_NS + 101 * 10**9, now_ns=NOW_NS)
    assert is_due(NOW_NS + 99 * 10**9, now_ns=NOW_NS)


def place_of(known: ClusterView, obj: Obj) -> str | None:
    view = known.view(obj)
    return place(view, known.table, known.context(view, now_ns=NOW_NS)).node


def test_what_is_reserved_for_a_pod_is_no_obstacle_to_it_and_to_all_others() -> None:
    for reservation_first in (True, False):
        known = ClusterView()
        known.put("Node", None, node())
        if reservation_first:
            known.put("Reservation", None, held())
        known.put_pod({**pod(), "status": {"nominatedNodeName": "n1"}})
        if not reservation_first:
            known.put("Reservation", None, held())
        needs = (("cpu", 2000), ("memory", 2**30), ("pods", 1))
        (claim,) = known.table.claims.values()
        assert claim == RoomClaim("uid-of-vip", "n1", needs, HIGHEST, "shop", "", claim.order)
        assert place_of(known, pod()) == "n1"
        higher = pod("other")
        higher["spec"]["priority"] = 2000
        assert place_of(known, higher) is None


def test_what_is_reserved_stays_taken_when_its_pod_is_not_ours_any_more() -> None:
    known = ClusterView()
    known.put("Node", None, node())
    view = known.put_pod({**pod(), "status": {"nominatedNodeName": "n1"}})
    known.put("Reservation", None, held())
    known.unnominate(view.uid)
    assert place_of(known, pod("other")) is None
    assert known.put("Reservation", held(), held("Released")) == ("PodGone",)
    assert place_of(known, pod("other")) == "n1"
    assert known.held_for == {}


def test_room_that_is_made_elsewhere_counts_more_than_what_is_still_reserved() -> None:
    known = ClusterView()
    for name in ("n1", "n2"):
        known.put("Node", None, node(name))
    view = known.put_pod(pod())
    known.put("Reservation", None, held())
    known.unnominate(view.uid)
    known.nominate(view, "n2")
    assert {one.holder: one.node for one in known.table.claims.values()} == {
        "uid-of-vip": "n2",
        f"reservation/shop/{reservation_name(intent_of(pod()))}": "n1",
    }
    key = Key("shop", reservation_name(intent_of(pod())))
    expected = HeldRoom(
        key, "r", "n1", (("cpu", 2000), ("memory", 2**30), ("pods", 1)), "shop", "", NOW_NS + 120 * 10**9
    )
    assert known.held_for == {"uid-of-vip": expected}
    assert known.put("Reservation", expected.as_object("uid-of-vip"), None) == ("PodGone",)
    assert {one.holder: one.node for one in known.table.claims.values()} == {"uid-of-vip": "n2"}
    assert place(view, known.table, PlacementContext(holder=view.uid)).node in {"n1", "n2"}


def test_a_new_term_waits_where_the_pods_status_says_and_not_where_an_earlier_term_chose() -> None:
    known = ClusterView()
    for name in ("n1", "n2"):
        known.put("Node", None, node(name))
    given_up, moved = known.put_pod(pod()), known.put_pod(pod("other"))
    for view in (given_up, moved):
        known.nominate(view, "n1")
    told = known.view({**pod("other"), "status": {"nominatedNodeName": "n2"}})
    known.forget_choices([given_up, told])
    assert {claim.holder: claim.node for claim in known.table.claims.values()} == {moved.uid: "n2"}
