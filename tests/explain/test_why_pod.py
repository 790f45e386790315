"""Why a pod is as it is: beyond the first line, and where all is well."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.explain.builders import (
    NOT_READY,
    READY,
    RUNS,
    Obj,
    at,
    condition,
    container,
    decided,
    ended,
    event,
    evidence,
    lease,
    node,
    own,
    pod,
    reported,
    running,
    why,
)

from fathom.explain.evidence import Gap, ObjectRef, ProcessState
from fathom.explain.why.answer import Explanation, Freshness, NodeGroup, Now, QueuePlace
from fathom.explain.why.case import cluster_of
from fathom.explain.why.pod import wanted
from fathom.explain.why.what_if import ObjectPatch, what_if
from fathom.model.audit import AuditEntry
from fathom.model.decision import Outcome, Rejection, SeenVersions
from fathom.schedule.decide.filters import nodes, resources
from fathom.schedule.decide.verdicts import Reason

SHORT = "0/2 nodes are available: 2 Insufficient cpu."
FULL = (Rejection("NodeResourcesFit", "capacity", 2, "AddCapacity", "capacity"),)
SMALL = [node("a", cpu="1"), node("b", cpu="1500m")]
WELL = running(reported(running=RUNS, ready=True), conditions=READY)


def labels(pod_name: str) -> Obj:
    return {"labels": {"app": pod_name}}


# No node.


def test_a_pod_that_fits_has_the_points_of_every_node() -> None:
    large = [node("c", cpu="4"), node("d", cpu="8")]
    nodes_of = why(evidence(pods=[pod(cpu="2")], nodes=[*SMALL, *large])).nodes
    assert [(row.node, row.fits, row.reason) for row in nodes_of] == [
        ("d", True, ""),
        ("c", True, ""),
        ("a", False, "NodeResourcesFit: Insufficient cpu"),
        ("b", False, "NodeResourcesFit: Insufficient cpu"),
    ]
    best, second, *others = [row.score for row in nodes_of]
    assert best is not None
    assert second is not None
    assert best > second
    assert others == [None, None]


def test_the_nodes_are_grouped_by_reason_and_listed_one_by_one() -> None:
    explanation = why(evidence(pods=[pod(cpu="2")], nodes=SMALL))
    assert explanation.groups == (NodeGroup("NodeResourcesFit: Insufficient cpu", 2, ("a", "b")),)
    assert [(row.node, row.fits, row.reason) for row in explanation.nodes] == [
        ("a", False, "NodeResourcesFit: Insufficient cpu"),
        ("b", False, "NodeResourcesFit: Insufficient cpu"),
    ]
    assert explanation.change is not None
    assert (explanation.change.what, explanation.change.nodes) == ("lower cpu of container web to 1500m", 1)
    assert explanation.rejected == (Rejection("NodeResourcesFit", "capacity", 2, "AddCapacity", "capacity"),)
    assert explanation.next_trigger.startswith("tried again when a node is added, a node changes")
    assert explanation.next_trigger.endswith("or within a minute")


def test_the_same_answer_now_as_on_record_does_not_differ() -> None:
    """Also where the recorded message mentions preemption too: the counts are compared."""
    for record in (
        decided("unschedulable", message=SHORT, looked_at=2),
        decided("unschedulable", message="worded otherwise", looked_at=2, rejected=FULL),
        decided(
            "unschedulable", message=f"{SHORT} preemption: none", filters={"Insufficient cpu": 2}, looked_at=2
        ),
    ):
        assert why(evidence(pods=[pod(cpu="2")], nodes=SMALL, records=(record,))).now == Now(False, SHORT)
    elsewhere = decided(
        "unschedulable", message=SHORT, looked_at=2, rejected=(Rejection("NodePorts", "", 2),)
    )
    assert why(evidence(pods=[pod(cpu="2")], nodes=SMALL, records=(elsewhere,))).now == Now(True, SHORT)
    other = decided("unschedulable", message=SHORT, filters={"Insufficient memory": 2}, looked_at=2)
    assert why(evidence(pods=[pod(cpu="2")], nodes=SMALL, records=(other,))).now == Now(True, SHORT)


REWORDED_FILTERS: dict[str, tuple[Any, str, Obj, list[Obj]]] = {
    "resources": (resources, "_short_of", {"cpu": "2"}, SMALL),
    "taints": (
        nodes,
        "_tainted",
        {"cpu": "1"},
        [
            node("a", taints=[{"key": "spot", "value": "yes", "effect": "NoSchedule"}]),
            node("b", cpu="500m", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
        ],
    ),
}


@pytest.mark.parametrize("name", REWORDED_FILTERS)
def test_the_decisive_reason_and_the_change_are_the_same_however_a_filter_words_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, function, requests, listed = REWORDED_FILTERS[name]
    case = evidence(pods=[pod(**requests)], nodes=listed)
    before = why(case)
    reason_of = getattr(module, function)

    def reworded(about: Any) -> Reason:
        reason: Reason = reason_of(about)
        return msgspec.structs.replace(reason, texts=tuple(f"nein ({i})" for i, _ in enumerate(reason.texts)))

    monkeypatch.setattr(module, function, reworded)
    after = why(msgspec.structs.replace(case))
    assert after.groups != before.groups
    assert (after.change, after.stage, after.rejected) == (before.change, before.stage, before.rejected)
    if name == "resources":
        assert after.cause == before.cause == "2 of 2 nodes have too little free cpu (NodeResourcesFit)"


def test_where_no_single_change_is_enough_all_of_them_are_typed_in_one_line() -> None:
    cordoned: Any = {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    }
    case = evidence(pods=[pod(cpu="2")], nodes=[node("a", cpu="1", **cordoned)])
    change = why(case).change
    assert change is not None
    assert change.what == "kubectl uncordon a; and lower cpu of container web to 1"
    assert change.command.startswith("kubectl uncordon a && kubectl -n shop patch pod web")


def test_a_pod_of_a_deployment_is_changed_in_the_deployments_template() -> None:
    reference = [{"kind": "ReplicaSet", "name": "web-1", "uid": "uid-rs", "controller": True}]
    above = [{"kind": "Deployment", "name": "web", "uid": "uid-d", "controller": True}]
    case = evidence(
        pods=[pod(cpu="2", meta={"ownerReferences": reference})],
        nodes=SMALL,
        replicasets_apps=[
            {"metadata": {"namespace": "shop", "name": "web-1", "uid": "uid-rs", "ownerReferences": above}}
        ],
        deployments_apps=[{"metadata": {"namespace": "shop", "name": "web", "uid": "uid-d"}}],
    )
    change = why(case).change
    assert change is not None
    assert change.command == (
        "kubectl -n shop patch deployment web --type=json -p "
        """'[{"op":"replace","path":"/spec/template/spec/containers/0/resources/requests/cpu","value":"1500m"}]'"""
    )
    assert change.who == "the owner of deployment/web"
    assert [about.resource for about in wanted(case.subject, case.objects).objects] == [
        "pods", "replicasets.apps", "deployments.apps",
    ]  # fmt: skip


def test_a_node_that_is_full_cannot_be_fitted_by_requesting_less() -> None:
    case = evidence(pods=[pod("old", on="a", cpu="1"), pod(cpu="2")], nodes=[node("a", cpu="1")])
    change = why(case).change
    assert change is not None
    assert (change.what, change.command, change.who) == (
        "free 2 cpu on a, or add a node", "", "a cluster operator",
    )  # fmt: skip


def test_a_dead_scheduler_comes_first_and_that_no_node_fits_either_after() -> None:
    case = evidence(pods=[pod(cpu="9")], nodes=[node("node-1")], leases_coordination_k8s_io=[lease(ago_s=95)])
    explanation = why(case)
    assert explanation.stage == "control-plane"
    assert explanation.details[0].lines == (
        "no node would take it: the only node has too little free cpu (NodeResourcesFit)",
    )
    assert explanation.changes[0].what == "lower cpu of container web to 4"


def test_a_scheduler_that_nobody_runs_is_named() -> None:
    explanation = why(evidence(pods=[pod(schedulerName="nosuch")], nodes=[node("a")]))
    assert explanation.cause == (
        "no scheduler named 'nosuch' has a lease in fathom-system or a decision on record"
    )
    assert explanation.stage == "control-plane"


# Queued.


def test_a_pod_that_fits_now_waits_for_its_turn_and_who_is_ahead_is_listed() -> None:
    scheduler = ProcessState(
        process="deciders", parts=("scheduler",), leads=True,
        state={"queue": {"active": 20, "pods": {"uid-web": {"place": 2, "of": 20, "ahead": [
            {"namespace": "shop", "name": "first", "uid": "uid-first"}]}}}},
    )  # fmt: skip
    explanation = why(evidence(pods=[pod()], nodes=[node("a")], processes=(scheduler,)))
    assert explanation.queue == QueuePlace(2, 20, ("shop/first",))
    assert explanation.summary == (
        "pod shop/web waits for a node: it fits a and waits for its turn, place 2 of 20 in the queue"
    )
    assert not explanation.as_wanted


def test_the_place_on_record_is_told_where_the_queue_is_not_known() -> None:
    record = decided("unschedulable", message=SHORT, place=(2, 20))
    case = evidence(pods=[pod(cpu="2")], nodes=SMALL, records=(record,))
    assert why(case).queue == QueuePlace(2, 20, source="record")
    assert why(evidence(pods=[pod(cpu="2")], nodes=SMALL)).queue is None


def test_a_binding_that_was_refused_is_not_passed_over() -> None:
    refused = Outcome(id="d-bind", time_ns=1, result="conflict", message="QuotaExceeded: quota/risk")
    case = evidence(
        pods=[pod()], nodes=[node("b")], records=(decided("bind", node="b", outcomes=(refused,)),)
    )
    assert why(case).cause == (
        "it fits b now, though its last binding was refused (QuotaExceeded: quota/risk),"
        " and waits for its turn"
    )


def test_a_binding_without_an_answer_is_the_cause_until_it_is_settled() -> None:
    unknown = Outcome(id="d-bind", time_ns=1, result="unknown", message="503: the store is full")
    settled = Outcome(id="d-bind", time_ns=2, result="conflict", message="NodeGone: no node b")

    def after(*outcomes: Outcome) -> Explanation:
        record = decided("bind", node="b", outcomes=outcomes)
        return why(evidence(pods=[pod()], nodes=[node("b")], records=(record,)))

    assert after(unknown).cause == (
        "its binding to b got no answer from the API server (503: the store is full) and is sent again"
    )
    assert after(unknown).stage == "control-plane"
    assert "was refused (NodeGone: no node b)" in after(unknown, settled).cause


def test_a_silent_scheduler_is_the_cause_for_a_pod_that_fits() -> None:
    scheduler = ProcessState(process="deciders", parts=("scheduler",), answered=False)
    explanation = why(evidence(pods=[pod()], nodes=[node("b")], processes=(scheduler,)))
    assert explanation.cause == "the scheduler (deciders) does not answer"


def test_a_view_is_stale_only_while_its_watch_is_silent_and_behind() -> None:
    """A busy kind is always a moment behind; a quiet one that has every change is not stale, however old."""
    record = decided(
        "unschedulable", message=SHORT, seen={"Node": SeenVersions(3, 9000)},
        rejected=(Rejection("NodeResourcesFit", "capacity", 1),),
    )  # fmt: skip
    case = evidence(pods=[pod()], nodes=[node("b")], records=(record,))
    assert "view of Node is stale (inferred from its last decision)" in why(case).cause
    for seen, stage in (
        (SeenVersions(3, 9000), "control-plane"),
        (SeenVersions(3, 20), "queued"),
        (SeenVersions(90, 9000), "queued"),
    ):
        scheduler = ProcessState(process="deciders", parts=("scheduler",), leads=True, caches={"Node": seen})
        assert why(msgspec.structs.replace(case, processes=(scheduler,))).stage == stage


def test_a_pod_whose_priority_makes_room_says_whom_it_will_displace() -> None:
    case = evidence(pods=[pod("low", cpu="4", on="a"), pod(cpu="3", priority=100)], nodes=[node("a")])
    assert why(case).cause == "there is room for it only if shop/low of lower priority leaves a"
    assert why(case).stage == "preempting"


def test_required_node_affinity_is_dropped_where_no_node_matches_it() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    affinity = {"nodeAffinity": {required: {"nodeSelectorTerms": [term]}}}
    change = why(evidence(pods=[pod(affinity=affinity)], nodes=[node("a")])).change
    assert change is not None
    assert change.what == "drop its required node affinity"
    assert f"/spec/affinity/nodeAffinity/{required}" in change.command


def test_a_gated_pod_that_no_node_would_take_is_told_both_changes() -> None:
    gated = pod(cpu="2", schedulingGates=[{"name": "example.com/ready"}])
    explanation = why(evidence(pods=[gated], nodes=SMALL))
    assert explanation.stage == "gated"
    assert explanation.change is not None
    assert explanation.change.what == (
        "remove the scheduling gate example.com/ready; and lower cpu of container web to 1500m"
    )
    assert explanation.change.command.count(" && ") == 1
    assert explanation.details[0].title == "once its gates are removed"
    assert why(evidence(pods=[gated], nodes=[node("a")])).details == ()


def test_of_two_cordoned_nodes_the_change_is_said_to_be_one_of_two() -> None:
    case = evidence(pods=[pod()], nodes=[node("a", unschedulable=True), node("b", unschedulable=True)])
    change = why(case).change
    assert change is not None
    assert (change.what, change.one_of, change.nodes) == ("kubectl uncordon a", 2, 1)


def test_a_pod_that_a_cordon_keeps_waiting_says_who_cordoned_the_node_and_when() -> None:
    shut = node("a", unschedulable=True)
    entry = AuditEntry(
        id="a-1", time=at(600), user="alice", verb="patch", resource="nodes", name="a", code=200, revision=40,
        changed=("spec.unschedulable",),
    )  # fmt: skip
    case = evidence(pods=[pod()], nodes=[shut, node("b", cpu="100m")], audit=(entry,))
    assert [each.name for each in wanted(case.subject, case.objects).writes_of] == ["a"]
    explanation = why(case)
    assert [(group.title, group.lines) for group in explanation.details] == [
        ("cordon", (f"a was cordoned by alice, 10m ago ({at(600)})",))
    ]
    assert why(msgspec.structs.replace(case, may_read_nodes=False)).details == ()


def test_a_request_that_a_limit_range_has_set_is_named_where_it_is_too_large() -> None:
    """The template asks for nothing: who looks there finds no reason."""
    marks = {"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container web"}
    filled = pod("web", container(cpu="2"), container("beside", cpu="2"), meta={"annotations": marks})
    explanation = why(evidence(pods=[filled], nodes=[node("a", cpu="3")]))
    assert [(group.title, group.lines) for group in explanation.details] == [
        (
            "requests",
            ("container web asks for no cpu itself: cpu 2 is the default of a LimitRange of namespace shop",),
        )
    ]
    assert why(evidence(pods=[pod(cpu="2")], nodes=[node("a", cpu="1")])).details == ()
    shut = evidence(pods=[filled], nodes=[node("a", cpu="9", unschedulable=True)])
    assert why(shut).details == (), "its requests are not why it waits"


def test_what_two_containers_must_give_up_together_comes_after_one_change() -> None:
    """Neither of them alone can request so little."""
    both = pod("web", container(cpu="2"), container("beside", cpu="2"), nodeSelector={"disk": "ssd"})
    nodes = [node("a", cpu="1", labels={"disk": "ssd"}), node("b")]
    explanation = why(evidence(pods=[both], nodes=nodes))
    assert explanation.change is not None
    assert explanation.change.what == "drop disk=ssd from the nodeSelector"
    assert [change.what for change in explanation.changes] == ["free 3 cpu on a, or add a node"]


def test_a_template_without_tolerations_gets_its_first() -> None:
    """The server gave some to the pod, which the template does not have."""
    reference = [{"kind": "Deployment", "name": "web", "uid": "uid-d", "controller": True}]
    tolerated = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    template = {
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-d"},
        "spec": {"template": {"spec": {}}},
    }
    case = evidence(
        pods=[pod(meta={"ownerReferences": reference}, tolerations=tolerated)],
        nodes=[node("a", taints=[{"key": "spot", "effect": "NoSchedule"}])],
        deployments_apps=[template],
    )
    change = why(case).change
    assert change is not None
    assert '"path":"/spec/template/spec/tolerations","value":[{"key":"spot"' in change.command


def test_a_quota_that_leaves_no_room_for_a_new_pod_is_raised_before_the_template_is_changed() -> None:
    """With so few replicas, 25% may be missing is none: the new pod comes before an old one goes. And where
    one was never created, it comes first when there is room."""
    reference = [{"kind": "Deployment", "name": "web", "uid": "uid-d", "controller": True}]
    meta = {"namespace": "shop", "name": "web", "uid": "uid-d"}
    quota = {"metadata": {"namespace": "shop", "name": "room"}, "spec": {"hard": {"pods": "2"}}}

    def changes(replicas: int, used: str, *, created: int | None = None) -> list[str]:
        status = {"replicas": replicas if created is None else created}
        case = evidence(
            pods=[pod(cpu="2", meta={"ownerReferences": reference})],
            nodes=SMALL,
            deployments_apps=[{"metadata": meta, "spec": {"replicas": replicas}, "status": status}],
            resourcequotas=[{**quota, "status": {"used": {"pods": used}}}],
        )
        change = why(case).change
        assert change is not None
        return change.what.split("; and ")

    lowered = "lower cpu of container web to 1500m"
    assert changes(2, "2") == ["raise pods to 3 in ResourceQuota room", lowered]
    assert changes(2, "1") == [lowered]
    assert changes(4, "2") == [lowered]
    assert changes(3, "2", created=1) == ["raise pods to 5 in ResourceQuota room", lowered]


RECOVERY = {"apiVersion": "fathom.dev/v1alpha1", "kind": "CapacityClass", "metadata": {"name": "recovery"}}


def class_changes(asked_pod: Obj, **spec: Any) -> tuple[list[str], int]:
    """What would open the class, the first change first, and how many changes are of its size."""
    reserved = {**RECOVERY, "spec": {"nodeSelector": {"pool": "spare"}, **spec}}
    nodes = [node("a", labels={"pool": "spare"})]
    answer = why(evidence(pods=[asked_pod], nodes=nodes, capacityclasses_fathom_dev=[reserved]))
    assert answer.change is not None
    commands = [change.command for change in (answer.change, *answer.changes)]
    return [command for command in commands if "recovery" in command], answer.change.one_of


OVERRIDE_COMMAND = '"changes":{"allowReservedCapacityClass":"recovery"}'


def test_reserved_nodes_are_opened_by_an_override_and_as_well_to_the_tenant() -> None:
    (override, admitted), equals = class_changes(pod())
    assert OVERRIDE_COMMAND in override
    assert admitted.endswith('[{"op":"add","path":"/spec/tenants","value":["shop"]}]\'')
    assert equals == 2


def test_a_pod_that_asks_for_a_class_has_its_tenant_admitted_or_gets_an_override() -> None:
    asks = pod(meta={"annotations": {"fathom.dev/capacity-class": "recovery"}})
    (admitted, override), equals = class_changes(asks, tenants=["other"])
    assert admitted.endswith('[{"op":"add","path":"/spec/tenants/-","value":"shop"}]\'')
    assert OVERRIDE_COMMAND in override
    assert equals == 2


def test_a_pod_that_does_not_ask_for_a_class_gets_its_kept_room_by_an_override_alone() -> None:
    """To admit its tenant would not be enough: the pod would have to ask for the class."""
    (override,), equals = class_changes(pod(), resources={"cpu": "100"})
    assert OVERRIDE_COMMAND in override
    assert equals == 1


def test_pods_that_are_in_the_way_are_named_with_a_command() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "old"}}}
    case = evidence(
        pods=[pod("old", on="a"), pod(affinity={"podAntiAffinity": {required: [term]}})], nodes=[node("a")]
    )
    explanation = why(case)
    assert explanation.change is not None
    assert explanation.change.command == "kubectl -n shop delete pod old"
    assert [change.what for change in explanation.changes] == [
        "drop its required pod anti-affinity over kubernetes.io/hostname"
    ]


def test_freshness_tells_what_was_used_and_the_newest_change() -> None:
    record = decided("unschedulable", message=SHORT, seen={"Node": SeenVersions(3, 20, 4)})
    explanation = why(evidence(pods=[pod(cpu="2")], nodes=SMALL, records=(record,)))
    assert explanation.freshness == (Freshness("Node", 3, 4, 5, 20),)
    assert explanation.freshness[0].is_behind


# It runs.


def test_a_pod_that_runs_is_told_why_here_and_why_not_there() -> None:
    record = decided(
        "bind", node="a", scores={"a": 120, "b": 120}, looked_at=3, filters={"Insufficient cpu": 1}
    )
    case = evidence(
        pods=[pod(on="a", status=WELL)],
        nodes=[node("a"), node("b"), node("c", cpu="100m")],
        records=(record,),
    )
    explanation = why(case)
    assert (explanation.as_wanted, explanation.stage) == (True, "placed")
    assert explanation.summary == (
        "pod shop/web is ready: it runs on a, the best of 2 nodes that fit, with 120 points; b had as many"
    )
    assert [(row.node, row.fits) for row in explanation.nodes] == [("a", True), ("b", True), ("c", False)]
    assert explanation.now == Now(False, "it would stay on a", "a")


def test_the_rules_that_prefer_one_node_are_listed_with_their_points() -> None:
    on_ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    prefers = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "preference": on_ssd}
        ]}
    }  # fmt: skip
    nodes = [node("a"), node("b", labels={"disk": "ssd"})]
    explanation = why(evidence(pods=[pod(on="a", status=WELL, affinity=prefers)], nodes=nodes))
    assert explanation.now is not None
    assert explanation.now.node == "b"
    assert explanation.details[0].title == "points now, by rule"
    assert explanation.details[0].lines == ("b: NodeAffinity 200", "a: NodeAffinity 0")


def test_a_question_about_a_running_pod_leaves_its_cluster_as_it_was() -> None:
    case = evidence(pods=[pod(on="a", status=WELL)], nodes=[node("a"), node("b")])
    cluster = cluster_of(case.objects)
    first, again = why(case, cluster=cluster), why(case, cluster=cluster)
    assert first == again
    assert "uid-web" in cluster.table.placed


def test_a_pod_that_somebody_else_placed_is_said_to_be_so() -> None:
    explanation = why(evidence(pods=[pod(on="a", status=WELL)], nodes=[node("a")]))
    assert explanation.cause == "it runs on a; no decision on record placed it"


def test_a_pod_between_two_crashes_is_not_well_though_it_is_ready() -> None:
    status = running(
        reported(running={"startedAt": at(5)}, ready=True, restarts=3, last=ended(2)), conditions=READY
    )
    explanation = why(evidence(pods=[pod(on="a", status=status)], nodes=[node("a")]))
    assert not explanation.as_wanted
    assert "keeps ending: container web ends with code 2 (restarted 3 times)" in explanation.summary


def test_other_containers_in_trouble_are_listed_after_the_decisive_one() -> None:
    status = running(
        reported("web", running=RUNS),
        reported("side", waiting={"reason": "ErrImageNeverPull", "message": "no such image"}),
        conditions=[NOT_READY],
    )
    probed = container("web", readinessProbe={"tcpSocket": {"port": 80}})
    explanation = why(
        evidence(pods=[pod("web", probed, container("side"), on="a", status=status)], nodes=[node("a")])
    )
    assert "of container side cannot be pulled" in explanation.cause
    assert explanation.details[0].lines == ("the readiness probe of container web has not passed yet",)


def test_a_liveness_failure_that_only_an_event_tells_is_found() -> None:
    status = running(reported(running={"startedAt": at(2)}, restarts=1, last=ended(143)))
    told = event(
        "Killing", "Stopping container web: Container web failed liveness probe, will be restarted: no"
    )
    explanation = why(evidence(pods=[pod(on="a", status=status)], nodes=[node("a")], events=[told]))
    assert explanation.cause.startswith("the liveness probe of container web fails")


def test_memory_that_was_only_refused_is_said_to_be_inferred() -> None:
    """Without cgroups the kernel kills nobody: the program ends by itself, near its limit."""
    last = ended(1, "MemoryRefused", "memory peak 60000000 of the limit 67108864 bytes")
    limited = container("web", resources={"limits": {"memory": "64Mi"}})
    status = running(reported(waiting={"reason": "CrashLoopBackOff"}, restarts=1, last=last))
    case = evidence(pods=[pod("web", limited, on="a", status=status)], nodes=[node("a")])
    assert "inferred: out of memory: its limit is 64Mi, memory peak 60000000 of" in why(case).cause


def test_a_ready_pod_that_no_slice_of_its_service_lists_gets_no_requests() -> None:
    service = {"metadata": {"namespace": "shop", "name": "front"}, "spec": {"selector": {"app": "web"}}}
    listed = {
        "metadata": {
            "namespace": "shop",
            "name": "front-1",
            "labels": {"kubernetes.io/service-name": "front"},
        },
        "endpoints": [{"targetRef": {"uid": "uid-web"}, "conditions": {"ready": True}}],
    }
    case = evidence(pods=[pod(on="a", status=WELL)], nodes=[node("a")], services=[service])
    assert why(case).cause == "no EndpointSlice of Service front lists it as ready"
    case = evidence(
        pods=[pod(on="a", status=WELL)], nodes=[node("a")], services=[service],
        endpointslices_discovery_k8s_io=[listed],
    )  # fmt: skip
    assert why(case).as_wanted


# It ends.


@pytest.mark.parametrize(
    ("status", "as_wanted", "cause"),
    [
        (
            {"phase": "Succeeded", "containerStatuses": [reported(terminated=ended(0, "Completed"))]},
            True,
            f"all its containers ended with code 0, at {at(30)}",
        ),
        (
            {"phase": "Failed", "containerStatuses": [reported(terminated=ended(4))]},
            False,
            f"container web ends with code 4, at {at(30)}",
        ),
        (
            {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no cpu"},
            False,
            "node a rejected it (OutOfcpu): Pod was rejected: no cpu",
        ),
    ],
)
def test_a_pod_that_has_finished_says_how(status: Obj, as_wanted: bool, cause: str) -> None:
    explanation = why(evidence(pods=[pod(on="a", status=status)], nodes=[node("a")]))
    assert (explanation.stage, explanation.as_wanted, explanation.cause) == ("finished", as_wanted, cause)


DELETED = AuditEntry(
    id="1", time="2026-01-01T11:59:00.000000Z", user="alice", verb="delete", resource="pods", code=200,
    namespace="shop", name="web", uid="uid-web", revision=90,
)  # fmt: skip


def test_of_a_pod_that_is_gone_the_audit_log_says_who_deleted_it() -> None:
    case = evidence(records=(decided("bind", node="a"),), audit=(DELETED,))
    explanation = why(case)
    assert explanation.summary == (
        "pod shop/web no longer exists: deleted by alice at 2026-01-01T11:59:00.000000Z"
    )
    assert [decision.id for decision in explanation.decisions] == ["d-bind"]
    assert not explanation.as_wanted


def test_a_deletion_by_a_decision_says_which_and_why() -> None:
    entry = msgspec.structs.replace(DELETED, user="system:fathom:controllers", decision="d-delete")
    record = decided("delete", about="web-7f2", message="2 replicas too many")
    assert "deleted by system:fathom:controllers at" in why(evidence(audit=(entry,), records=(record,))).cause
    assert "decided delete (2 replicas too many)" in why(evidence(audit=(entry,), records=(record,))).cause


def test_a_pod_that_is_gone_because_it_was_preempted_says_for_whom() -> None:
    record = decided("preempt", about="big", node="a", priority=7, victims=("shop/web: preempted",))
    case = evidence(audit=(DELETED,), records=(record,), pods=[pod("big")])
    assert "pod shop/big of priority 7 took its place on a" in why(case).summary


def test_an_eviction_of_an_earlier_pod_of_the_name_is_not_taken_for_its_own() -> None:
    earlier = decided("preempt", about="big", node="a", victims=("shop/web: preempted",), ago_s=90)
    case = evidence(audit=(DELETED,), records=(earlier, decided("bind", node="a", ago_s=60)))
    assert "deleted by alice" in why(case).summary


def test_without_an_audit_log_who_deleted_it_is_not_known() -> None:
    gap = Gap("audit log", "does not answer")
    case = evidence(records=(decided("bind", node="a"),), gaps=(gap,))
    assert why(case).cause.endswith(
        "was 'bind a'; no data about who deleted it: the audit log did not answer"
    )
    assert why(case).gaps == (gap,)


def test_a_pod_that_once_existed_is_gone_though_its_owners_pods_are_refused_now() -> None:
    failed = condition(
        "ReplicaFailure",
        "True",
        "FailedCreate",
        "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
    )
    maker = {
        "kind": "ReplicaSet",
        "metadata": {"namespace": "shop", "name": "web"},
        "status": {"conditions": [failed]},
    }
    entry = msgspec.structs.replace(DELETED, name="web-x")
    assert why(evidence("web-x", replicasets_apps=[maker])).stage == "refused"
    assert why(evidence("web-x", replicasets_apps=[maker], audit=(entry,))).stage == "gone"


def test_a_name_that_nobody_ever_had_is_said_to_be_so() -> None:
    assert why(evidence("nosuch")).summary == (
        "pod shop/nosuch does not exist: there is no pod of this name, and no record of one"
    )


def test_a_terminating_pod_says_who_deleted_it_and_what_holds_it() -> None:
    meta = {"deletionTimestamp": at(-20), "finalizers": ["example.com/save"]}
    explanation = why(
        evidence(pods=[pod(on="a", status=WELL, meta=meta)], nodes=[node("a")], audit=(DELETED,))
    )
    assert "is being deleted: deleted by alice" in explanation.summary
    assert "finalizer example.com/save holds it" in explanation.summary


def test_an_eviction_says_who_asked_for_it() -> None:
    target = condition("DisruptionTarget", reason="EvictionByEvictionAPI", message="Eviction API: evicting")
    status = running(reported(running=RUNS), conditions=[target])
    entry = msgspec.structs.replace(DELETED, verb="create", subresource="eviction")
    held = pod(on="a", status=status, meta={"deletionTimestamp": at(-20)})
    assert "is being evicted: Eviction API: evicting, asked for by alice" in (
        why(evidence(pods=[held], nodes=[node("a")], audit=(entry,))).summary
    )
    assert "no data about who asked for it" in why(evidence(pods=[held], nodes=[node("a")])).summary
    earlier = msgspec.structs.replace(entry, uid="uid-of-an-earlier-pod-of-the-name")
    assert "no data about who asked for it" in (
        why(evidence(pods=[held], nodes=[node("a")], audit=(earlier,))).summary
    )


def test_who_asked_for_an_eviction_is_who_was_last_to_commit_and_not_the_last_in_the_log() -> None:
    target = condition("DisruptionTarget", reason="EvictionByEvictionAPI", message="Eviction API: evicting")
    status = running(reported(running=RUNS), conditions=[target])
    entry = msgspec.structs.replace(DELETED, verb="create", subresource="eviction")
    slow = msgspec.structs.replace(entry, id="0", user="bob", revision=89, time="2026-01-01T11:59:16.000000Z")
    held = pod(on="a", status=status, meta={"deletionTimestamp": at(-20)})
    assert "Eviction API: evicting, asked for by alice" in (
        why(evidence(pods=[held], nodes=[node("a")], audit=(entry, slow))).summary
    )


# Options of the question.


def test_what_if_runs_the_decider_on_changed_objects() -> None:
    case = evidence(pods=[pod(cpu="2")], nodes=SMALL)
    more = ObjectPatch("nodes", "", "a", {"status": {"allocatable": {"cpu": "2"}}})
    assert why(what_if(case, [more])).cause == "it fits a and waits for its turn"
    gone = [ObjectPatch("nodes", "", name, None) for name in ("a", "b")]
    assert why(what_if(case, gone)).cause == "the cluster has no nodes"
    new = ObjectPatch(
        "nodes", "", "c", {"status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "9"}}}
    )
    assert why(what_if(case, [new])).cause == "it fits c and waits for its turn"
    assert why(case).cause == "2 of 2 nodes have too little free cpu (NodeResourcesFit)"


def test_the_change_that_is_proposed_would_admit_the_pod() -> None:
    case = evidence(pods=[pod(cpu="2")], nodes=SMALL)
    (held,) = case.objects.list("pods")
    lowered = {
        "spec": {
            "containers": [{**held["spec"]["containers"][0], "resources": {"requests": {"cpu": "1500m"}}}]
        }
    }
    assert why(what_if(case, [ObjectPatch("pods", "shop", "web", lowered)])).cause == (
        "it fits b and waits for its turn"
    )


def test_a_user_who_may_not_see_nodes_gets_counts() -> None:
    case = evidence(
        pods=[pod(cpu="2")],
        nodes=[node("node-1", cpu="1"), node("node-2", cpu="1500m")],
        may_read_nodes=False,
    )
    explanation = why(case)
    assert explanation.nodes == ()
    assert explanation.groups == (NodeGroup("NodeResourcesFit: Insufficient cpu", 2),)
    assert "node-" not in str(msgspec.to_builtins(explanation))


def test_objects_of_namespaces_that_the_user_may_not_read_are_not_named() -> None:
    port: Any = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
    theirs = pod("old", container(**port), on="a", meta={"namespace": "other"})
    case = evidence(
        pods=[theirs, pod("web", container(**port))], nodes=[node("a")], readable=frozenset({"shop"})
    )
    explanation = why(case)
    assert "an object of another namespace" in explanation.summary
    assert "other/old" not in str(msgspec.to_builtins(explanation))
    assert explanation.change is not None
    assert explanation.change.command == ""  # It would name the pod and its namespace apart.


def test_the_document_has_stable_names() -> None:
    document: dict[str, Any] = msgspec.to_builtins(why(evidence(pods=[pod(cpu="2")], nodes=SMALL)))
    assert list(document) == [
        "subject", "summary", "verdict", "asWanted", "cause", "stage", "change", "changes", "details",
        "groups",        "nodes", "queue", "freshness", "now", "nextTrigger", "gaps", "decisions", "rejected",
        "causes", "related", "activeOverrides", "fights", "kind", "ready", "wanted",
    ]  # fmt: skip
    assert list(document["change"]) == ["what", "command", "who", "nodes", "oneOf"]
    assert document["subject"] == {"resource": "pods", "namespace": "shop", "name": "web", "uid": "uid-web"}
    assert msgspec.convert(document, Explanation) == why(evidence(pods=[pod(cpu="2")], nodes=SMALL))


def test_the_records_wanted_are_those_of_the_pod_its_node_and_its_placement() -> None:
    placed = pod(on="a", meta={"annotations": {"fathom.dev/decision": "d-9"}})
    case = evidence(pods=[placed], nodes=[node("a")])
    query = wanted(case.subject, case.objects)
    assert query.decisions == ("d-9",)
    assert query.objects == (ObjectRef("pods", "shop", "web", "uid-web"), ObjectRef("nodes", "", "a"))


def test_a_pause_of_repair_is_said_where_a_lost_node_keeps_its_pods() -> None:
    override = own(
        "SchedulerOverride", "hold", namespace="shop", target="workload/web", reason="r", expiresAfter="1h",
        changes={"pauseRepair": True}, status={"active": True, "expiresAt": at(-600)},
    )  # fmt: skip
    lost = node("a", conditions=[condition("fathom.dev/Lost", message="no heartbeat")])
    case = evidence(
        pods=[pod(on="a", status=running(reported(running=RUNS)))], nodes=[lost],
        scheduleroverrides_fathom_dev=[override],
    )  # fmt: skip
    assert "override shop/hold pauses repair" in why(case).summary


# Displaced.


def displaced(reason: str, message: str, **objects: Any) -> Explanation:
    status = {"conditions": [condition("DisruptionTarget", reason=reason, message=message)]}
    web = pod(on="a", meta={"deletionTimestamp": at(-20)}, status=status)
    return why(evidence(pods=[web, pod("big", priority=100)], **{"nodes": [node("a")], **objects}))


@pytest.mark.parametrize("message", ["Preempted by pod uid-other on node b", "Verdrängt"])
def test_the_event_preempted_names_the_other_pod_as_its_related_object(message: str) -> None:
    told = {**event("Preempted", message), "related": {"kind": "Pod", "uid": "uid-big"}}
    assert displaced("PreemptionByScheduler", "", events=[told]).cause.startswith(
        "pod shop/big of priority 100 takes its place on a; its own is 0"
    )


@pytest.mark.parametrize("message", ["deleting due to NoExecute taint other", "Vertrieben"])
def test_the_taint_that_evicts_a_pod_is_the_nodes(message: str) -> None:
    taints = [
        {"key": "repair", "effect": "NoExecute"},
        {"key": "spot", "effect": "NoSchedule"},
    ]
    change = displaced("DeletionByTaintManager", message, nodes=[node("a", taints=taints)]).change
    assert change is not None
    assert change.what == "tolerate the taint repair, or remove it from node a"
    assert '"key":"repair"' in change.command
    assert displaced("DeletionByTaintManager", message).change is None
