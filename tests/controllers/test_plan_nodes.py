"""What is done about a node that is not heard, and about the pods on it."""

from __future__ import annotations

from fathom.control.plan import Patch, target
from fathom.controllers.node_health.evidence import Assessment, Evidence, NodeState
from fathom.controllers.node_health.plan import (
    HELD,
    HeldBack,
    entered,
    plan_node,
    plan_out_of_service,
    state_of,
)
from fathom.controllers.node_health.plan_evictions import (
    Eviction,
    beside,
    leaving,
    marks,
    stays_beside_s,
    tolerated_s,
)
from fathom.model.conditions import find_condition
from fathom.model.objects import Obj

NOW = "2026-01-01T00:10:00Z"
NOW_NS = 1_767_226_200 * 1_000_000_000
S = 1_000_000_000
SILENT = Assessment(NodeState.LOST, (Evidence("lease", "…"), Evidence("connection", "…")))
HEARD = Assessment(NodeState.HEALTHY)


def node(*taints: Obj, conditions: list[Obj] | None = None, unschedulable: bool = False) -> Obj:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    return {
        "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7"},
        "spec": {"taints": list(taints), **({"unschedulable": True} if unschedulable else {})},
        "status": {"conditions": [ready, *(conditions or ())]},
    }


def taint(key: str, effect: str, added: str = NOW) -> Obj:
    return {"key": key, "effect": effect, "timeAdded": added}


def after(before: Obj, found: Assessment, allowed: NodeState, held: str = "") -> Obj:
    """The node as the plan leaves it."""
    plan = plan_node(before, found, allowed, HeldBack("BrakeHolds", held) if held else None, now=NOW)
    status = before["status"]
    for write in plan.statuses:
        status = {**status, **write.status}
    spec = before["spec"]
    for patch in plan.patches:
        spec = {**spec, **patch.patch["spec"]}
    return {**before, "spec": spec, "status": status}


def test_a_healthy_node_is_left_as_it_is() -> None:
    plan = plan_node(node(), HEARD, NodeState.HEALTHY, None, now=NOW)
    assert (plan.actions, plan.statuses) == ((), ())


def test_each_state_adds_to_the_one_before() -> None:
    keys = {
        state: [(each["key"], each["effect"]) for each in after(node(), SILENT, state)["spec"]["taints"]]
        for state in (NodeState.SUSPECT, NodeState.UNREACHABLE, NodeState.LOST)
    }
    suspect = [("fathom.dev/suspect", "NoSchedule")]
    unreachable = [
        *suspect,
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    lost = [*unreachable, ("fathom.dev/lost", "NoExecute")]
    assert keys == {NodeState.SUSPECT: suspect, NodeState.UNREACHABLE: unreachable, NodeState.LOST: lost}


def test_what_is_said_of_a_node_can_be_read_back() -> None:
    gone = after(node(), SILENT, NodeState.LOST)
    assert state_of(gone) == NodeState.LOST
    assert entered(gone, NodeState.UNREACHABLE) == NOW
    ready = gone["status"]["conditions"][0]
    assert (ready["status"], ready["reason"], ready["lastHeartbeatTime"]) == (
        "Unknown", "NodeStatusUnknown", "2026-01-01T00:00:00Z",
    )  # fmt: skip


def test_what_the_brake_holds_back_is_said_on_the_node() -> None:
    held = after(node(), SILENT, NodeState.SUSPECT, "9 of 9 are silent")
    assert held["status"]["conditions"][1]["message"] == (
        "the node's Lease is not renewed; the API server does not reach the node"
    )
    condition = find_condition(held["status"]["conditions"], HELD) or {}
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True", "BrakeHolds", "9 of 9 are silent",
    )  # fmt: skip
    assert state_of(held) == NodeState.SUSPECT


def test_what_an_operator_says_of_a_node_is_said_with_it() -> None:
    word = Assessment(NodeState.LOST, (Evidence("operator", "rack burnt"),))
    gone = after(node(), word, NodeState.LOST)
    message = "an operator declared the machine gone: rack burnt"
    assert {each["message"] for each in gone["status"]["conditions"][1:]} == {message}
    again = after(gone, Assessment(NodeState.LOST), NodeState.LOST)
    assert again["status"]["conditions"][-1]["message"] == "no heartbeat since it entered this state"


def test_a_node_that_is_heard_again_loses_our_taints_and_keeps_those_of_others() -> None:
    theirs = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    ill = after(node(theirs), SILENT, NodeState.LOST)
    ill["status"]["conditions"][0] = {"type": "Ready", "status": "True"}  # The agent's word.
    well = after(ill, HEARD, NodeState.HEALTHY)
    assert well["spec"]["taints"] == [theirs]
    assert state_of(well) == NodeState.HEALTHY


def test_a_taint_that_stays_keeps_its_time() -> None:
    early = taint("node.kubernetes.io/unreachable", "NoExecute", "2026-01-01T00:00:00Z")
    assert early in after(node(early), SILENT, NodeState.UNREACHABLE)["spec"]["taints"]


def test_the_agents_own_word_and_a_cordon_become_taints() -> None:
    said = node(conditions=[{"type": "MemoryPressure", "status": "True"}], unschedulable=True)
    said["status"]["conditions"][0]["status"] = "False"
    found = [
        (each["key"], each["effect"]) for each in after(said, HEARD, NodeState.HEALTHY)["spec"]["taints"]
    ]
    assert found == [
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]


def test_an_empty_list_of_taints_is_taken_away() -> None:
    suspect = node(taint("fathom.dev/suspect", "NoSchedule"))
    plan = plan_node(suspect, HEARD, NodeState.HEALTHY, None, now=NOW)
    assert plan.patches == (Patch(target("Node", suspect), {"spec": {"taints": None}}),)


# Pods.


def pod(name: str, *tolerations: Obj, **status: object) -> Obj:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": "n1", "tolerations": list(tolerations)},
        "status": {"phase": "Running", "conditions": ready, **status},
    }


UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute", "2026-01-01T00:09:00Z")


def default_toleration(seconds: int) -> Obj:
    return {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


def test_pods_leave_when_their_time_beside_the_taint_is_over() -> None:
    forever = pod("forever", {"operator": "Exists"})
    late, soon = pod("late", default_toleration(300)), pod("soon", default_toleration(30))
    at_once, done = pod("at-once"), pod("done", phase="Succeeded")
    pods = [forever, late, soon, at_once, done]
    since = beside(node(UNREACHABLE), pods, {}, now_ns=NOW_NS - 60 * S)
    found = leaving(node(UNREACHABLE), pods, since, now_ns=NOW_NS)
    key = "node.kubernetes.io/unreachable"
    assert found == [Eviction(at_once, key, -60.0), Eviction(soon, key, -30.0), Eviction(late, key, 240.0)]


def test_time_beside_a_taint_counts_from_when_it_was_seen_not_from_when_somebody_says() -> None:
    """What objects name are times of wall clocks."""
    long_ago = taint("bad", "NoExecute", "2020-01-01T00:00:00Z")
    patient = pod("patient", {"key": "bad", "operator": "Exists", "tolerationSeconds": 30})
    since = beside(node(long_ago), [patient], {}, now_ns=NOW_NS)
    assert leaving(node(long_ago), [patient], since, now_ns=NOW_NS) == [Eviction(patient, "bad", 30.0)]
    again = beside(node(long_ago), [patient], since, now_ns=NOW_NS + 20 * S)
    assert leaving(node(long_ago), [patient], again, now_ns=NOW_NS + 20 * S) == [
        Eviction(patient, "bad", 10.0)
    ]


def test_who_came_after_the_taint_has_its_whole_time() -> None:
    """Its pod would else be made, driven away and made again, for ever."""
    early, late = pod("early", default_toleration(30)), pod("late", default_toleration(30))
    since = beside(node(UNREACHABLE), [early], {}, now_ns=NOW_NS - 10 * S)
    since = beside(node(UNREACHABLE), [early, late], since, now_ns=NOW_NS)
    found = leaving(node(UNREACHABLE), [early, late], since, now_ns=NOW_NS)
    key = "node.kubernetes.io/unreachable"
    assert found == [Eviction(early, key, 20.0), Eviction(late, key, 30.0)]


def test_nobody_leaves_for_silence_before_those_who_live_could_be_heard() -> None:
    at_once = pod("at-once")
    since = beside(node(UNREACHABLE), [at_once], {}, now_ns=NOW_NS)
    key = "node.kubernetes.io/unreachable"
    found = leaving(node(UNREACHABLE), [at_once], since, now_ns=NOW_NS, not_before={key: NOW_NS + 40 * S})
    assert found == [Eviction(at_once, key, 40.0)]


def test_who_stays_on_an_unreachable_node_for_longer_than_is_usual_stays_on_a_lost_one() -> None:
    lost = taint("fathom.dev/lost", "NoExecute")
    assert stays_beside_s(lost, [default_toleration(300)]) == 0.0
    assert stays_beside_s(lost, [default_toleration(3600)]) == 3600.0
    forever = {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}
    assert stays_beside_s(lost, [forever]) is None
    assert stays_beside_s(lost, [forever], declared=True) == 0.0


def test_a_node_that_is_silent_for_long_is_lost_and_its_pods_stay_as_long_as_they_tolerate_that() -> None:
    silence = Assessment(NodeState.LOST, (Evidence("lease", "…"), Evidence("status", "…")))
    gone = after(node(), silence, NodeState.LOST)
    assert state_of(gone) == NodeState.LOST
    assert [(each["key"], each["effect"]) for each in gone["spec"]["taints"]] == [
        ("fathom.dev/suspect", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]


def test_nobody_is_driven_off_a_node_that_another_path_sees_alive() -> None:
    words = "the gateway reaches pods there"
    spared = Assessment(NodeState.UNREACHABLE, (Evidence("lease", "…"),), spared=words)
    there = after(node(), spared, NodeState.UNREACHABLE)
    assert {each["effect"] for each in there["spec"]["taints"]} == {"NoSchedule"}
    assert there["status"]["conditions"][0]["status"] == "Unknown"
    assert there["status"]["conditions"][-1]["message"] == f"no pod is evicted: {words}"


def test_who_is_going_already_is_not_told_again() -> None:
    going = pod("going")
    going["metadata"]["deletionTimestamp"] = NOW
    assert leaving(node(UNREACHABLE), [going], {}, now_ns=NOW_NS) == []


def test_why_a_pod_goes_is_written_on_it_once() -> None:
    before = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:09:50Z"}
    told = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    new, old = (
        Eviction(pod("new", conditions=[before]), "bad", 0.0),
        Eviction(pod("old", conditions=[told]), "bad", 0.0),
    )
    said = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": NOW,
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint bad",
    }
    written = {"status": {"conditions": [before, said]}}
    assert marks([new, old], now=NOW) == (
        Patch(target("Pod", new.pod), written, subresource="status", destructive=True),
    )


def test_of_several_tolerations_the_first_that_matches_holds() -> None:
    assert tolerated_s(UNREACHABLE, [default_toleration(300), default_toleration(10)]) == 300.0
    assert tolerated_s(UNREACHABLE, [{"operator": "Exists"}, default_toleration(10)]) is None
    assert tolerated_s(UNREACHABLE, [{"operator": "Exists"}]) is None
    assert tolerated_s(UNREACHABLE, [{"key": "other", "operator": "Exists"}]) == 0.0
    assert tolerated_s(UNREACHABLE, [{"key": UNREACHABLE["key"], "value": "other"}]) == 0.0


def test_pods_that_are_ready_are_taken_out_of_service() -> None:
    ready, waiting = pod("ready"), pod("waiting", conditions=[{"type": "Ready", "status": "False"}])
    (write,) = plan_out_of_service([ready, waiting], now=NOW)
    assert write.target == target("Pod", ready)
    assert write.status["conditions"][0]["status"] == "False"
    assert write.status["conditions"][0]["reason"] == "NodeUnreachable"


def test_pods_whose_agent_says_which_generation_it_speaks_of_are_taken_out_of_service_too() -> None:
    ready = pod("ready", conditions=[{"type": "Ready", "status": "True", "observedGeneration": 3}])
    ready["metadata"]["generation"] = 3
    (write,) = plan_out_of_service([ready], now=NOW)
    (said,) = write.status["conditions"]
    assert (said["status"], said["observedGeneration"]) == ("False", 3)
