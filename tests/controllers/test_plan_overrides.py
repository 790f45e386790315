"""What an override's status says, whom a drain evicts, what the end undoes and what it names as left."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from tests.controllers.making import NOW, NOW_S, at, meta, pod, replica_set

from fathom.cache.snapshot import Snapshot
from fathom.client.outcomes import Committed
from fathom.control.event_writer import EventChange
from fathom.control.plan import Evict, target
from fathom.controllers.overrides.effects import holds_class
from fathom.controllers.overrides.events import of_override
from fathom.controllers.overrides.facts import OverrideFacts
from fathom.controllers.overrides.plan import plan_override
from fathom.controllers.overrides.plan_changes import change_states
from fathom.controllers.overrides.plan_end import evicted_by, plan_undoing
from fathom.controllers.overrides.plan_evictions import next_evictions, staying
from fathom.controllers.overrides.plan_routes import plan_restore, plan_weights, route_residue
from fathom.kinds.capacity_class import CAPACITY_CLASSES
from fathom.kinds.override_changes import CHANGES
from fathom.kinds.override_scope import WorkloadName
from fathom.kinds.override_status import (
    FINALIZER,
    Acknowledger,
    ComponentLease,
    Observers,
    acknowledged,
    observers,
)
from fathom.kinds.scheduler_override import OVERRIDES, ChangeState, Effect, Residue, SchedulerOverride
from fathom.kinds.shape import read
from fathom.model.decision import considered
from fathom.model.objects import Obj
from fathom.model.well_known import POOL_LABEL, REGION_LABEL, ZONE_LABEL

NOW_NS = NOW_S * 1_000_000_000
UID = "uid-recovery"
REF = f"default/recovery@{UID}"
LESSON: Obj = {"pauseAutoscaler": True, "avoidZones": ["eu-west-a"], "allowReservedCapacityClass": "recovery"}
EXAMPLES: dict[str, object] = {
    **dict.fromkeys(("pauseAutoscaler", "pauseRollout", "pauseRepair", "pauseExpansion"), True),
    **{name: ["x"] for name in ("avoidZones", "avoidNodes", "avoidNodeClasses", "avoidPools")},
    "approveRepairs": ["x"],
    "avoidTopology": {"rack": ["x"]},
    "allowReservedCapacityClass": "x",
    "reservedReplicas": 1,
    "raisePriority": 5,
    "cordon": True,
    "drain": True,
    "trafficWeights": {"x": 1},
    "breakGlassRole": "x",
}


def override(
    changes: Obj = LESSON,
    *,
    target: str = "workload/web",
    until_s: float = 60,
    status: Obj | None = None,
    deleted: bool = False,
    **spec: Any,
) -> Obj:
    made = meta("recovery", finalizers=[FINALIZER])
    if deleted:
        made["deletionTimestamp"] = NOW
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": made,
        "spec": {"target": target, "reason": "calm", "expiresAfter": "30m", "changes": changes, **spec},
        "status": {"expiresAt": at(until_s), **(status or {})},
    }


def struct(obj: Obj) -> SchedulerOverride:
    return read(SchedulerOverride, obj)


def node(name: str, **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels}}


def capacity_class(*tenants: str, **more: Any) -> Obj:
    spec = {"nodeSelector": {POOL_LABEL: "recovery"}, "tenants": list(tenants), **more}
    return {"metadata": {"name": "recovery"}, "spec": spec}


def charged(name: str, owner: Obj | None = None, **more: Any) -> Obj:
    obj = pod(name, owner or replica_set(), **more)
    obj["metadata"]["annotations"] = {
        "fathom.dev/account": f"default/a/recovery/{UID}",
        "fathom.dev/overrides": f"{REF},default/other@2",
    }
    return obj


def entry(controller: str, *, generation: int = 1, epoch: int = 0, state: str = "Honoring") -> Obj:
    return {
        "controller": controller,
        "state": state,
        "observedGeneration": generation,
        "epoch": epoch,
        "reason": "no" if state == "Declined" else "",
    }


# Acknowledgements.


def test_an_acknowledger_adds_its_entry_beside_those_of_others_and_only_if_it_is_affected() -> None:
    obj = override(status={"acknowledgements": [entry("scheduler")]})
    both = [Acknowledger("autoscaler", 3), Acknowledger("deployment-controller", 3)]
    assert acknowledged(obj, both, cache_revision=9, now=NOW, now_ns=NOW_NS) == [
        {"controller": "scheduler", "state": "Honoring", "observedGeneration": 1},
        {
            "controller": "autoscaler",
            "state": "Honoring",
            "observedGeneration": 1,
            "cacheRevision": 9,
            "epoch": 3,
            "time": NOW,
        },
    ]


def test_an_acknowledgement_holds_for_one_generation_and_one_leader_term() -> None:
    obj = override(status={"acknowledgements": [entry("scheduler", epoch=2)]})

    def again(epoch: int, **changes: Any) -> bool:
        changed = {**obj, "metadata": {**obj["metadata"], **changes}}
        by = (Acknowledger("scheduler", epoch),)
        return acknowledged(changed, by, cache_revision=9, now=NOW, now_ns=NOW_NS) is not None

    assert [again(2), again(3), again(2, generation=2)] == [False, True, True]
    ended = override(until_s=0)
    assert acknowledged(ended, [Acknowledger("scheduler")], cache_revision=9, now=NOW, now_ns=NOW_NS) is None


def test_all_schedulers_that_hold_a_lease_must_have_observed_it() -> None:
    shards = [
        ComponentLease("scheduler-0of2"),
        ComponentLease("scheduler-1of2"),
        ComponentLease("controllers"),
    ]
    one = struct(override(status={"acknowledgements": [entry("scheduler-0of2")]}))
    assert observers(one, ("scheduler",), shards) == Observers(waiting=("scheduler-1of2",))
    assert observers(one, ("scheduler",), shards[:1]) == Observers()
    assert observers(struct(override()), ("autoscaler",), ()) == Observers(waiting=("autoscaler",))


def test_an_acknowledger_of_an_earlier_term_has_not_observed_and_one_without_its_lease_is_lost() -> None:
    obj = struct(override(status={"acknowledgements": [entry("scheduler", epoch=2)]}))
    assert observers(obj, ("scheduler",), [ComponentLease("scheduler", 3)]).waiting == ("scheduler",)
    gone = observers(obj, ("scheduler",), [ComponentLease("scheduler", 2, held=False)])
    assert gone == Observers(lost=("scheduler",))
    never = observers(struct(override()), ("autoscaler",), [ComponentLease("controllers", 2, held=False)])
    assert never == Observers(waiting=("autoscaler",), lost=("autoscaler",))


# Status.


def test_every_change_has_a_state_and_without_its_target_it_matches_nothing() -> None:
    assert set(EXAMPLES) == set(CHANGES)
    for name, value in EXAMPLES.items():
        obj = override({name: value})
        states = change_states(struct(obj), OverrideFacts(role_exists=False), {})
        assert [(state.name, state.state) for state in states] == [(name, "NoMatch")]


def test_places_that_no_node_in_the_scope_has_are_named() -> None:
    obj = override({"avoidZones": ["a", "z"]}, scope="region/eu")
    facts = OverrideFacts(
        workloads=({"kind": "Deployment", **replica_set()},),
        nodes=(
            node("n1", **{ZONE_LABEL: "a", REGION_LABEL: "eu"}),
            node("n2", **{ZONE_LABEL: "z", REGION_LABEL: "us"}),
        ),
    )
    assert change_states(struct(obj), facts, {}) == (
        ChangeState("avoidZones", "InForce", "NodesAvoided", "no node in the scope is in z"),
    )
    assert change_states(struct(obj), facts, {"scheduler": "not mine"}) == (
        ChangeState("avoidZones", "Declined", "ControllerDeclined", "scheduler: not mine"),
    )


# Those that hold for all of a workload, wherever its next pod goes. The scope of the others is looked at node
# by node, or object by object.
OF_THE_WORKLOAD = {"pauseAutoscaler", "pauseRollout", "pauseExpansion", "raisePriority", "trafficWeights"}


def test_what_holds_for_a_workload_matches_nothing_while_the_workload_is_not_in_the_scope() -> None:
    here = msgspec.structs.replace(routing(BEFORE), in_scope=False)
    message = "no pod of workload/web is in region/eu-east"
    for name, value in EXAMPLES.items():
        (state,) = change_states(struct(override({name: value}, scope="region/eu-east")), here, {})
        out = state == ChangeState(name, "NoMatch", "NotInScope", message)
        assert (name, out) == (name, name in OF_THE_WORKLOAD)


def test_repair_finds_nothing_in_a_scope_that_has_no_node() -> None:
    proposal = {"metadata": meta("x")}
    for name, value in (("pauseRepair", True), ("approveRepairs", ["x"])):
        for scope, state in (("region/eu-north", "NoMatch"), ("zone/eu-west-a", "InForce")):
            facts = msgspec.structs.replace(routing(BEFORE), proposals=(proposal,))
            (found,) = change_states(struct(override({name: value}, scope=scope)), facts, {})
            assert (name, scope, found.state) == (name, scope, state)


def status_in(obj: Obj, facts: OverrideFacts) -> Obj:
    plan = plan_override(obj, struct(obj), facts, now=NOW, now_ns=NOW_NS)
    return plan.statuses[0].status


def conditions_in(status: Obj) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def test_it_is_active_once_all_have_observed_it_and_the_servers_part_is_filled_in() -> None:
    seen = {"acknowledgements": [entry("scheduler"), entry("autoscaler")]}
    status = status_in(override(status=seen), OverrideFacts(cache_revision=9))
    assert status["affectedControllers"] == ["scheduler", "autoscaler", "quota-controller"]
    assert status["acknowledgements"][-1]["controller"] == "quota-controller"
    assert (status["active"], status["observedGeneration"]) == (True, 1)
    assert conditions_in(status) == {
        "SchedulerOverrideObserved": ("True", "AllAcknowledged"),
        "Effective": ("False", "NothingMatches"),
        "Degraded": ("False", "AllRunning"),
    }
    late = {"acknowledgements": [entry("scheduler"), entry("autoscaler", generation=0)]}
    status = status_in(override(status=late), OverrideFacts())
    assert status["active"] is False
    assert conditions_in(status)["SchedulerOverrideObserved"] == ("False", "Waiting")


def test_the_decision_cites_the_override_and_the_capacity_class_that_it_names() -> None:
    obj, other = override(), {"metadata": {"name": "other"}, "spec": {}}
    named = {**capacity_class(), "metadata": {**meta("recovery"), "resourceVersion": "7", "generation": 2}}
    plan = plan_override(obj, struct(obj), OverrideFacts(classes=(other, named)), now=NOW, now_ns=NOW_NS)
    assert plan.considered == (
        considered(OVERRIDES, obj, decisive=True),
        considered(CAPACITY_CLASSES, named, decisive=True),
    )


def test_what_is_written_already_is_not_written_again() -> None:
    obj = override(status={"acknowledgements": [entry("scheduler"), entry("autoscaler")]})
    written = {**obj["status"], **status_in(obj, OverrideFacts())}
    again = {**obj, "status": {name: value for name, value in written.items() if value is not None}}
    plan = plan_override(again, struct(again), OverrideFacts(), now=at(5), now_ns=NOW_NS + 5 * 10**9)
    assert plan.statuses == ()


# Evictions.


def test_a_drain_evicts_a_few_at_a_time_and_neither_the_last_healthy_replica_nor_what_nobody_replaces() -> (
    None
):
    owner = replica_set()
    pods = [pod(f"web-{number}", owner) for number in range(6)]
    siblings = {"uid-web": pods}
    chosen = next_evictions(pods, siblings, {}, override=REF)
    assert chosen == tuple(Evict(target("Pod", each), REF) for each in pods[:3])
    leaving = [pod("web-0", owner, going=True), *pods[1:]]
    assert len(next_evictions(leaving, {"uid-web": leaving}, {}, override=REF)) == 2
    assert next_evictions([pods[0]], {"uid-web": pods[:1]}, {}, override=REF) == ()
    alone = pod("bare")
    assert staying([pods[0], alone], {"uid-web": pods[:1]}, {}) == {
        "default/bare": "it has no controller: no other pod would replace it",
        "default/web-0": "it is the last healthy replica of ReplicaSet web",
    }


def test_of_two_healthy_replicas_that_must_go_one_stays_until_the_other_is_replaced() -> None:
    pods = [pod(f"web-{number}", replica_set()) for number in range(2)]
    chosen = next_evictions(pods, {"uid-web": pods}, {}, override=REF)
    assert [each.target.key.name for each in chosen] == ["web-0"]


# Routes.


def weighted(**status: Any) -> Obj:
    return override({"trafficWeights": {"eu-west-a": 0, "eu-west-b": 100}}, status=status)


RECORDED = {"effects": [{"effect": "route", "object": "TrafficRoute default/web"}]}


def routing(routes: list[Obj], **notes: str) -> OverrideFacts:
    workload = {"kind": "Deployment", **replica_set()}
    service = {"metadata": meta("web"), "spec": {"selector": {"app": "web"}}}
    route = {"metadata": meta("web", annotations=notes), "spec": {"service": "web", "routes": routes}}
    zones = (node("n1", **{ZONE_LABEL: "eu-west-a"}), node("n2", **{ZONE_LABEL: "eu-west-b"}))
    return OverrideFacts(workloads=(workload,), services=(service,), routes=(route,), nodes=zones)


BEFORE = [{"zone": "eu-west-a", "weight": 100}]
WANTED = [{"zone": "eu-west-a", "weight": 0}, {"zone": "eu-west-b", "weight": 100}]


def encoded(routes: list[Obj]) -> str:
    return msgspec.json.encode(routes, order="sorted").decode()


MARKS = {
    "fathom.dev/override": REF,
    "fathom.dev/override-routes": encoded(WANTED),
    "fathom.dev/override-earlier-routes": encoded(BEFORE),
}


def test_a_route_is_written_only_after_the_status_names_it() -> None:
    facts = routing(BEFORE)
    assert plan_weights(struct(weighted()), facts).patches == ()
    assert status_in(weighted(), facts)["effects"] == RECORDED["effects"]
    (patch,) = plan_weights(struct(weighted(**RECORDED)), facts).patches
    assert patch.patch == {"metadata": {"annotations": MARKS}, "spec": {"routes": WANTED}}


def test_no_route_is_written_out_of_the_scope_and_one_that_is_written_stays_until_the_end() -> None:
    away = msgspec.structs.replace(routing(BEFORE), in_scope=False)
    assert status_in(weighted(), away)["effects"] is None
    assert plan_weights(struct(weighted(**RECORDED)), away).patches == ()
    ours = msgspec.structs.replace(routing(WANTED, **MARKS), in_scope=False)
    assert plan_weights(struct(weighted(**RECORDED)), ours).patches == ()
    assert [each["state"] for each in status_in(weighted(**RECORDED), ours)["changes"]] == ["InForce"]
    assert len(plan_restore(struct(weighted(**RECORDED)), ours).patches) == 1


def test_an_older_route_that_arrives_later_is_named_before_it_is_written_and_restored_too() -> None:
    """The cache had no route, so one was created; the older one is in force instead."""
    created = {"effects": [{"effect": "route", "object": "TrafficRoute default/override-o"}]}
    facts = routing(BEFORE)
    assert plan_weights(struct(weighted(**created)), facts).patches == ()
    both = {"effects": [*created["effects"], *RECORDED["effects"]]}
    assert status_in(weighted(**created), facts)["effects"] == both["effects"]
    assert len(plan_weights(struct(weighted(**both)), facts).patches) == 1
    (restored,) = plan_restore(struct(weighted(**both)), routing(WANTED, **MARKS)).patches
    assert restored.patch["spec"] == {"routes": BEFORE}


def test_the_end_restores_the_earlier_weights_unless_a_person_wrote_others() -> None:
    ours = struct(weighted(**RECORDED))
    (restored,) = plan_restore(ours, routing(WANTED, **MARKS)).patches
    assert restored.patch["spec"] == {"routes": BEFORE}
    (unmarked,) = plan_restore(ours, routing([{"zone": "x", "weight": 1}], **MARKS)).patches
    assert unmarked.patch == {"metadata": {"annotations": dict.fromkeys(MARKS)}}
    created = {**MARKS, "fathom.dev/override-earlier-routes": "null"}
    assert [each.target.key.name for each in plan_restore(ours, routing(WANTED, **created)).deletes] == [
        "web"
    ]


def test_a_route_whose_mark_was_removed_is_left_by_name() -> None:
    assert route_residue(struct(weighted(**RECORDED)), routing(WANTED)) == (
        Residue(
            "route", "TrafficRoute default/web", "its mark is gone, and it has the weights of the override"
        ),
    )
    assert route_residue(struct(weighted(**RECORDED)), routing(BEFORE)) == ()


# The end.


def test_kept_placements_go_to_the_ordinary_account_and_lose_only_this_overrides_mark() -> None:
    obj = struct(override(onEnd="keep", deleted=True))
    lent = charged("web-0")
    undoing = plan_undoing(obj, OverrideFacts(placements=(lent,), nodes=(node("node-1"),)))
    (patch,) = undoing.patches
    assert patch.patch["metadata"]["annotations"] == {
        "fathom.dev/account": "default/a/",
        "fathom.dev/overrides": "default/other@2",
    }
    assert undoing.deletes == ()


def test_a_placement_on_a_reserved_node_is_residue_and_stays_where_it_is() -> None:
    obj = struct(override(onEnd="keep", deleted=True))
    reserved = node("node-1", **{POOL_LABEL: "recovery"})
    facts = OverrideFacts(placements=(charged("web-0"),), nodes=(reserved,), classes=(capacity_class(),))
    undoing = plan_undoing(obj, facts)
    assert (undoing.patches, undoing.deletes) == ((), ())
    where = "it is on node node-1, which is reserved for capacity class recovery"
    assert undoing.residue == (Residue("account", "Pod default/web-0", where),)
    admitted = msgspec.structs.replace(facts, classes=(capacity_class("default"),))
    (patch,) = plan_undoing(obj, admitted).patches
    assert patch.patch["metadata"]["annotations"]["fathom.dev/account"] == "default/a/recovery"


def test_moved_placements_are_evicted_and_a_refused_one_says_why() -> None:
    obj = struct(override(onEnd="move", deleted=True))
    owner = replica_set()
    lent, other = charged("web-0", owner), pod("web-1", owner)
    facts = OverrideFacts(placements=(lent,), siblings={"uid-web": (lent, other)})
    assert plan_undoing(obj, facts).deletes == (Evict(target("Pod", lent), REF),)
    refused = msgspec.structs.replace(facts, refused={"uid-web-0": "its budget allows none"})
    undoing = plan_undoing(obj, refused)
    assert undoing.deletes == ()
    assert undoing.residue == (Residue("account", "Pod default/web-0", "its budget allows none"),)


def test_marks_of_another_override_and_somebody_elses_cordon_are_left_alone() -> None:
    obj = struct(override(deleted=True))
    cordoned = {
        "metadata": {"name": "n1", "annotations": {"fathom.dev/override": "default/other@2"}},
        "spec": {"unschedulable": True, "taints": [{"key": "a", "value": "b"}]},
    }
    namesake = pod("web-0", replica_set())
    namesake["metadata"]["annotations"] = {"fathom.dev/overrides": "default/recovery@uid-of-yesterday"}
    facts = OverrideFacts(nodes=(cordoned,), placements=(namesake,))
    assert plan_undoing(obj, facts) == plan_undoing(obj, OverrideFacts())
    own_taint = {"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "value": UID}]}}
    assert plan_undoing(obj, OverrideFacts(nodes=(own_taint,))).residue == (
        Residue("taint", "Node n1", "taint a"),
    )


def tainted(key: str, value: str = "", **notes: str) -> Obj:
    made = {"name": "n1", "uid": "uid-n1", "annotations": notes}
    return {"metadata": made, "spec": {"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]}}


def test_what_carries_its_mark_is_recorded_and_named_after_the_mark_was_removed() -> None:
    broad = Effect("role", "Role default/broad", "uid-broad")
    facts = OverrideFacts(nodes=(tainted("example.com/x", UID),), made_under_it=(broad,))
    effects = status_in(override(), facts)["effects"]
    assert effects == [
        {"effect": "taint", "object": "Node n1", "uid": "uid-n1", "field": "taint example.com/x"},
        {"effect": "role", "object": "Role default/broad", "uid": "uid-broad"},
    ]
    ended = struct(override(deleted=True, status={"effects": effects}))
    left = plan_undoing(ended, OverrideFacts(nodes=(tainted("example.com/x"),))).residue
    assert left == (Residue("taint", "Node n1", "taint example.com/x: its mark is gone"),)
    another = {"metadata": {"name": "n1", "uid": "uid-later"}, "spec": tainted("example.com/x")["spec"]}
    assert plan_undoing(ended, OverrideFacts(nodes=(another,))).residue == ()
    assert plan_undoing(ended, OverrideFacts(nodes=(tainted("example.com/y"),))).residue == ()


def test_fathoms_own_key_without_a_uid_is_named_by_an_override_that_reaches_the_node() -> None:
    bare = OverrideFacts(nodes=(tainted("fathom.dev/override"),))
    left = plan_undoing(struct(override(deleted=True)), bare).residue
    assert left == (Residue("taint", "Node n1", "taint fathom.dev/override: it has no UID"),)
    elsewhere = struct(override(deleted=True, scope="region/eu-north"))
    assert plan_undoing(elsewhere, bare).residue == ()
    named = OverrideFacts(nodes=(tainted("x", **{"fathom.dev/override": "default/recovery"}),))
    assert plan_undoing(struct(override(deleted=True)), named).residue == (
        Residue("taint", "Node n1", "annotation fathom.dev/override: it has no UID"),
    )
    others = OverrideFacts(nodes=(tainted("fathom.dev/override", "uid-other"),))
    assert plan_undoing(struct(override(deleted=True)), others).residue == ()


def reserved_room(tenant: str = "default", drawn: str = "recovery") -> Obj:
    made = meta("web-0-held", annotations={"fathom.dev/account": f"{tenant}/a/{drawn}"})
    return {"metadata": made, "spec": {"workload": {"name": "web"}, "nodeName": "node-1"}}


def test_room_of_the_class_that_is_held_for_the_target_is_an_effect_though_nothing_marks_it() -> None:
    ours, web = struct(override()), (WorkloadName("deployment", "web"),)
    classes = (capacity_class("others"),)
    assert holds_class(ours, reserved_room(), web, classes)
    assert not holds_class(ours, reserved_room(drawn=""), web, classes)
    assert not holds_class(ours, reserved_room("others"), web, classes)  # Its tenant may use the class.
    assert not holds_class(ours, reserved_room(), (WorkloadName("deployment", "api"),), classes)
    assert not holds_class(ours, reserved_room(), web, ())
    assert not holds_class(struct(override({"cordon": True})), reserved_room(), web, classes)


def test_a_route_that_is_being_deleted_is_not_deleted_again() -> None:
    facts = routing(WANTED, **{**MARKS, "fathom.dev/override-earlier-routes": "null"})
    going = {**facts.routes[0], "metadata": {**facts.routes[0]["metadata"], "deletionTimestamp": NOW}}
    undoing = plan_undoing(struct(weighted(**RECORDED)), msgspec.structs.replace(facts, routes=(going,)))
    assert (undoing.acts, [each.object for each in undoing.residue]) == (False, ["TrafficRoute default/web"])


def test_the_end_is_written_first_then_proven_from_caches_that_have_it_then_the_finalizer_goes() -> None:
    obj = override(deleted=True, status={"active": True})
    facts = OverrideFacts(seen_revision=7)
    first = plan_override(obj, struct(obj), facts, now=NOW, now_ns=NOW_NS)
    assert conditions_in(first.statuses[0].status)["RepairComplete"] == ("Unknown", "Ended")
    obj["status"] |= {name: value for name, value in first.statuses[0].status.items() if value is not None}
    behind = plan_override(
        obj, struct(obj), msgspec.structs.replace(facts, seen_revision=6), now=NOW, now_ns=NOW_NS
    )
    assert (behind.actions, behind.statuses) == ((), ())
    proof = plan_override(obj, struct(obj), facts, now=NOW, now_ns=NOW_NS)
    assert conditions_in(proof.statuses[0].status)["RepairComplete"] == ("True", "NothingLeft")
    assert proof.patches == ()
    obj["status"] |= {name: value for name, value in proof.statuses[0].status.items() if value is not None}
    last = plan_override(obj, struct(obj), facts, now=NOW, now_ns=NOW_NS)
    assert [patch.patch for patch in last.patches] == [{"metadata": {"finalizers": []}}]


def test_what_is_left_is_named_and_the_finalizer_stays() -> None:
    obj = override(deleted=True, status={"active": True})
    facts = OverrideFacts(seen_revision=7, made_under_it=(Effect("role", "Role default/broad", "uid-broad"),))
    first = plan_override(obj, struct(obj), facts, now=NOW, now_ns=NOW_NS)
    obj["status"] |= {name: value for name, value in first.statuses[0].status.items() if value is not None}
    left = plan_override(obj, struct(obj), facts, now=NOW, now_ns=NOW_NS)
    assert left.actions == ()
    status = left.statuses[0].status
    assert status["residue"] == [
        {"effect": "role", "object": "Role default/broad", "message": "it was made under break-glass"}
    ]
    assert conditions_in(status)["RepairComplete"] == ("False", "Residue")


# Events.


def told_of(obj: Obj, facts: OverrideFacts) -> tuple[list[str], Obj]:
    """The reasons of the Events of one pass, and the override as it is then."""
    plan = plan_override(obj, struct(obj), facts, now=NOW, now_ns=NOW_NS)
    changes = [
        EventChange(obj, cast(Snapshot, None), action, Committed({}), plan.why)
        for action in (*plan.actions, *plan.statuses)
    ]
    reasons = [report.reason for change in changes for report in of_override(change)]
    status = {**obj["status"], **(plan.statuses[0].status if plan.statuses else {})}
    return reasons, {**obj, "status": {name: value for name, value in status.items() if value is not None}}


def test_people_hear_once_that_it_is_observed_degraded_ended_and_what_is_left() -> None:
    seen = {"acknowledgements": [entry("scheduler"), entry("autoscaler")]}
    observed, obj = told_of(override(status=seen), OverrideFacts())
    again, obj = told_of(obj, OverrideFacts())
    dead = OverrideFacts(leases=(ComponentLease("scheduler", held=False),))
    degraded, obj = told_of(obj, dead)
    assert (observed, again, degraded) == (["Observed"], [], ["Degraded"])
    obj["metadata"]["deletionTimestamp"] = NOW
    facts = OverrideFacts(seen_revision=7, made_under_it=(Effect("role", "Role default/broad", "uid-broad"),))
    ended, obj = told_of(obj, facts)
    left, obj = told_of(obj, facts)
    assert (ended, left, told_of(obj, facts)[0]) == (["Ended"], ["Residue"], [])


def test_marks_that_somebody_forged_make_us_evict_delete_and_release_nothing() -> None:
    obj = struct(override({"trafficWeights": {"x": 1}}, onEnd="move", deleted=True))
    stranger = pod("bystander-0", replica_set("bystander"))
    stranger["metadata"]["annotations"] = {"fathom.dev/overrides": REF}
    forged = {**MARKS, "fathom.dev/override-earlier-routes": "null"}
    facts = msgspec.structs.replace(routing(WANTED, **forged), placements=(stranger,))
    undoing = plan_undoing(obj, facts)
    assert undoing.deletes == ()
    assert [patch.patch for patch in undoing.patches] == [{"metadata": {"annotations": dict.fromkeys(MARKS)}}]


def test_the_override_that_evicts_a_pod_is_the_reason_of_a_condition_and_not_a_word_of_a_message() -> None:
    ours = struct(override())
    uid = ours.metadata.uid

    def evicted(reason: str, message: str) -> Obj:
        conditions = [
            {"type": "DisruptionTarget", "status": "True", "message": message},
            {"type": "fathom.dev/EvictedFor", "status": "True", "reason": reason},
        ]
        return {"metadata": {"name": "p"}, "status": {"conditions": conditions}}

    assert uid
    assert evicted_by(evicted(f"shop/calm@{uid}", "vertrieben"), ours)
    assert not evicted_by(evicted("shop/calm@another", f"as override shop/calm@{uid} asks"), ours)
