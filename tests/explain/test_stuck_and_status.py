"""Whatever is stuck, worst first; and the debug view of one workload, each field with its source."""

from __future__ import annotations

import msgspec
import pytest
from tests.explain.evidence_of import (
    at,
    condition,
    deployment,
    evidence,
    failing,
    lease,
    node,
    obj,
    pod,
    recorded,
    replica_set,
    scheduler_state,
    waiting,
    write,
)

from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.questions import PodExplainer
from fathom.explain.sourced import Sourced
from fathom.explain.status import NoSubject, StatusView, explain_status
from fathom.explain.why.answer import Explanation
from fathom.explain.why_of.kinds import explain_object
from fathom.explain.why_of.stuck import stuck, worst_first
from fathom.model.decision import Rejection, SeenVersions
from fathom.model.objects import Obj
from fathom.model.resource_names import AUTOSCALERS
from fathom.schedule.decide.rules import RULES


def everywhere(asked: Evidence, namespace: str = "") -> list[tuple[str, str]]:
    whole = msgspec.structs.replace(asked, subject=ObjectRef("", namespace, ""))
    return [(answer.subject.resource, answer.subject.name) for answer in stuck(whole)]


def world() -> list[Obj]:
    """Something of everything: down, partly down, refused, paused, and several that are as wanted."""
    down, part, well = deployment(1, name="down"), deployment(2, name="part"), deployment(1, name="well")
    sets = [
        replica_set(down, 1, name="down-1"),
        replica_set(part, 2, name="part-1"),
        replica_set(well, 1, name="well-1"),
    ]
    paused = obj("Job", "later", spec={"suspend": True, "completions": 1}, status={})
    return [
        down, part, well, *sets, paused,
        failing("down-1-0", sets[0], "ErrImagePull", "none"),
        pod("part-1-0", sets[1]),
        failing("part-1-1", sets[1], "ErrImagePull", "none"),
        pod("well-1-0", sets[2]),
        failing("alone", None, "CrashLoopBackOff"),
        node("good"),
        node("bad", condition("Ready", "False", "KubeletNotReady", "disk")),
    ]  # fmt: skip


def test_what_is_stuck_comes_worst_first_and_each_trouble_once() -> None:
    first, *others = world()
    assert everywhere(evidence(first, *others)) == [
        ("deployments.apps", "down"),
        ("pods", "alone"),
        ("nodes", "bad"),
        ("deployments.apps", "part"),
        ("jobs.batch", "later"),
    ]


def test_the_order_and_what_is_left_out_do_not_depend_on_how_answers_are_worded() -> None:
    hpa = obj(
        "HorizontalPodAutoscaler",
        "hpa",
        spec={"scaleTargetRef": {"kind": "Deployment", "name": "part"}, "maxReplicas": 4},
        status={
            "observedGeneration": 1,
            "conditions": [condition("ScalingLimited", "True", "HeldByImage", "1 of 2 are not ready")],
        },
    )
    rollout = obj(
        "PolicyRollout",
        "canary",
        namespace="",
        spec={"to": "v5", "paused": True},
        status={"phase": "Canary", "observedGeneration": 1},
    )
    cordoned = node("shut", condition("Ready", "True"))
    cordoned["spec"]["unschedulable"] = True
    first, *others = world()
    whole = msgspec.structs.replace(
        evidence(first, *others, hpa, rollout, cordoned), subject=ObjectRef("", "", "")
    )
    answers = stuck(whole)
    names = [answer.subject.name for answer in answers]
    assert names == ["down", "alone", "bad", "part", "later", "shut", "canary"]
    about_hpa = explain_object(
        msgspec.structs.replace(whole, subject=ObjectRef(AUTOSCALERS, "shop", "hpa")), explain_pod=None
    )
    reworded = [
        msgspec.structs.replace(answer, verdict="", summary="anders gesagt", cause="3 of 3")
        for answer in (about_hpa, *reversed(answers))
    ]
    assert [answer.subject.name for answer in worst_first(reworded)] == names


def test_a_pod_that_waits_for_a_scheduler_that_is_dead_is_not_said_to_wait_for_its_turn() -> None:
    """What passes by itself comes last: a pod that waits for its turn, or is being deleted."""
    free = node("n1")
    free["status"]["allocatable"] = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    waits = pod("waits", ready=False, node="")
    leaves = pod("leaves", metadata={"deletionTimestamp": at(20)})
    bad = node("n2", condition("Ready", "False", "KubeletNotReady", "disk"))

    def listed(renewed_s: float) -> list[str]:
        lease_now = lease("scheduler", renewed_s=renewed_s)
        case = evidence(waits, leaves, free, bad, lease_now)
        whole = msgspec.structs.replace(case, subject=ObjectRef("", "", ""))
        return [each.subject.name for each in stuck(whole, explain_pod=PodExplainer(RULES))]

    assert listed(1) == ["n2", "leaves", "waits"]
    assert listed(95) == ["waits", "n2", "leaves"]


def unscheduled(name: str, why: str) -> Obj:
    return pod(name, None, condition("PodScheduled", "False", "Unschedulable", why), ready=False, node="")


class Counted:
    """The decider, and which pods it was asked about."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._explainer = PodExplainer(RULES)

    def __call__(self, asked: Obj, known: Evidence) -> Explanation:
        self.names.append(asked["metadata"]["name"])
        return self._explainer(asked, known)


def listed_by(explain_pod: Counted, *objects: Obj) -> list[Explanation]:
    whole = msgspec.structs.replace(evidence(*objects), subject=ObjectRef("", "", ""))
    return stuck(whole, explain_pod=explain_pod)


def test_of_many_pods_that_wait_for_the_same_one_is_explained_and_the_others_are_counted() -> None:
    many = [unscheduled(f"many-{number:03}", "0/1 nodes: cpu") for number in range(200)]
    few = [unscheduled(f"few-{number}", "0/1 nodes: taint") for number in range(3)]
    asked = Counted()
    items = listed_by(asked, *many, *few, lease("scheduler", renewed_s=1))
    assert asked.names == ["many-000", "few-0", "few-1", "few-2"]
    assert sorted(item.subject.name for item in items) == ["few-0", "few-1", "few-2", "many-000"]
    first = next(item for item in items if item.subject.name == "many-000")
    assert first.summary.endswith(". 199 more pods wait for the same, such as many-001")
    assert [(group.count, group.message) for group in first.causes] == [(200, "0/1 nodes: cpu")]


def test_however_many_pods_wait_for_different_things_few_are_looked_at_closely() -> None:
    asked = Counted()
    many = [unscheduled(f"many-{number:03}", f"0/1 nodes: {number}") for number in range(200)]
    items = listed_by(asked, *many, lease("scheduler", renewed_s=1))
    assert (len(asked.names), len(items)) == (30, 200)


def test_a_service_that_only_repeats_its_workloads_trouble_is_left_out() -> None:
    first, *others = world()
    service = obj("Service", "down", spec={"selector": {"app": "down"}, "ports": []})
    for each in others:
        if each["metadata"]["name"] == "down-1-0":
            each["metadata"]["labels"] = {"app": "down"}
    lonely = obj("Service", "lonely", spec={"selector": {"app": "nowhere"}, "ports": []})
    names = [
        name
        for resource, name in everywhere(evidence(first, *others, service, lonely))
        if resource == "services"
    ]
    assert names == ["lonely"]


def test_a_namespace_limits_the_list_and_so_do_the_users_rights() -> None:
    first, *others = world()
    asked = evidence(first, *others)
    assert ("nodes", "bad") not in everywhere(asked, "shop")
    assert everywhere(asked, "other") == []
    blind = msgspec.structs.replace(asked, may_read_nodes=False, readable=frozenset({"other"}))
    assert everywhere(blind) == []


def test_nothing_is_stuck_in_a_cluster_that_is_well() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    assert everywhere(evidence(web, own, pod("web-1-0", own), node())) == []


# The status view.


def incident(*, decided: bool = True, rollout_revision: str = "900") -> Evidence:
    """Lesson 019's example: quota freed, and the scheduler's cache does not show it yet."""
    api = deployment(3, name="risk-api")
    api["metadata"]["generation"] = api["status"]["observedGeneration"] = 42
    own = replica_set(api, 3, name="risk-api-1")
    late = waiting("risk-api-1-2", own, "quota/risk-zone-c", "no quota in zone-c")
    quota = obj("TenantQuota", "risk", namespace="", metadata={"resourceVersion": "918946"})
    held = condition("ScalingLimited", "True", "HeldByQuota", "1 of 3 replicas are not ready yet")
    hpa = obj(
        "HorizontalPodAutoscaler",
        "risk-api",
        spec={"scaleTargetRef": {"kind": "Deployment", "name": "risk-api"}, "maxReplicas": 9},
        status={"conditions": [condition("AbleToScale", "True"), condition("ScalingActive", "True"), held]},
    )
    decoy = obj(
        "HorizontalPodAutoscaler",
        "another",
        spec={"scaleTargetRef": {"kind": "Deployment", "name": "another"}, "maxReplicas": 9},
        status={"conditions": [condition("AbleToScale", "False", "FailedGetScale", "of another workload")]},
    )
    progress = obj(
        "WorkloadProgress",
        "deployment-risk-api",
        spec={"workload": {"uid": api["metadata"]["uid"]}},
        status={"conditions": [condition("RepairComplete", "True", "NothingLeft", observedGeneration=42)]},
    )
    rolled_back = obj(
        "PolicyRollout",
        "v5",
        namespace="",
        metadata={"resourceVersion": rollout_revision},
        spec={"from": "v4", "to": "v5"},
        status={"phase": "RolledBack", "active": "v4"},
    )
    seen = {kind: SeenVersions(918812) for kind in ("Node", "Pod", "PolicyRollout", "TenantQuota")}
    reasons = (Rejection("TenantQuota", "quota", 1, reason="quota/risk-zone-c"),)
    first = recorded("scheduler", late, "unschedulable", id="d-1", at_s=-90, seen={"Node": SeenVersions(5)})
    last = recorded("scheduler", late, "unschedulable", id="d-2", seen=seen, rejected=reasons, message="0/3")
    objects = (own, pod("risk-api-1-0", own), pod("risk-api-1-1", own), late, quota, decoy, hpa, progress)
    audit = (write("system:fathom:housekeeping", quota, "status.used", revision=918946),)
    decisions = (first, last) if decided else ()
    return evidence(api, *objects, rolled_back, node(), decisions=decisions, audit=audit)


def test_the_status_of_the_lessons_example_shows_the_stale_quota() -> None:
    view = explain_status(incident())
    assert view.generation.value == 42
    assert view.rollback_observed == Sourced(
        True, "inferred: decision d-2 has PolicyRollouts at 918812, v5 changed at 900"
    )
    assert view.pending_replicas.value == ["risk-api-1-2"]
    assert view.last_reason.value == "quota/risk-zone-c"
    assert view.last_reason.source.startswith("decision d-2 of scheduler about pod shop/risk-api-1-2")
    assert view.cache_revision["TenantQuota"].value == 918812
    assert view.latest_revision["TenantQuota"] == Sourced(
        918946, "TenantQuota risk: metadata.resourceVersion, written by system:fathom:housekeeping"
    )
    assert view.kinds_behind == ("TenantQuota",)
    assert view.autoscaler_reason.value == "HeldByQuota: 1 of 3 replicas are not ready yet"
    assert view.repair_condition.value == {
        "type": "RepairComplete",
        "status": "True",
        "observedGeneration": 42,
        "reason": "NothingLeft",
    }


def test_the_json_has_the_names_of_the_contract_and_a_source_for_each() -> None:
    document = msgspec.to_builtins(explain_status(incident()))
    assert set(document) == {
        "workload", "summary", "generation", "rollbackObserved", "pendingReplicas", "lastReason",
        "cacheRevision", "latestRevision", "autoscalerReason", "repairCondition", "serviceLevels",
        "activeOverrides", "gaps",
    }  # fmt: skip
    plain = (
        "generation",
        "rollbackObserved",
        "pendingReplicas",
        "lastReason",
        "autoscalerReason",
        "repairCondition",
    )
    for name in plain:
        assert set(document[name]) == {"value", "source"}, name
        assert document[name]["source"], name
    for name in ("cacheRevision", "latestRevision"):
        assert all(set(entry) == {"value", "source"} for entry in document[name].values())


def quiet(**caches: SeenVersions) -> Evidence:
    """All replicas are ready. The last changes were at 40 (Pod), 60 (Node), and 99, of a Lease."""
    api = deployment(1, name="web")
    own = replica_set(api, 1, name="web-1")
    placed = pod("web-1-0", own, metadata={"resourceVersion": "40"})
    beaten = node()
    beaten["metadata"]["resourceVersion"] = "60"
    lease = obj("Lease", "n1", namespace="kube-node-lease", metadata={"resourceVersion": "99"})
    decided = recorded("scheduler", placed, seen={kind: SeenVersions(12) for kind in ("Pod", "Node")})
    state = (scheduler_state(**caches),) if caches else ()
    return evidence(api, own, placed, beaten, lease, decisions=(decided,), processes=state)


def test_in_a_quiet_cluster_no_kind_is_behind() -> None:
    """The decision is long ago, and the newest revision of the store is of a kind that no scheduler reads."""
    view = explain_status(quiet(Pod=SeenVersions(40), Node=SeenVersions(55, applied=60)))
    assert (view.pending_replicas.value, view.kinds_behind) == ([], ())
    assert view.latest_revision["Node"] == Sourced(60, "Node n1: metadata.resourceVersion")
    assert view.cache_revision["Pod"] == Sourced(40, "caches of scheduler")
    late = explain_status(quiet(Pod=SeenVersions(39), Node=SeenVersions(60)))
    assert late.kinds_behind == ("Pod",)
    assert explain_status(quiet()).cache_revision == {}, "the scheduler does not answer"


def test_a_change_that_the_scheduler_knows_by_now_is_not_behind_though_its_last_decision_is_older() -> None:
    asked = incident()
    held = scheduler_state(TenantQuota=SeenVersions(918812), Node=SeenVersions(918812))
    stale = explain_status(msgspec.structs.replace(asked, processes=(held,)))
    assert stale.kinds_behind == ("TenantQuota",)
    assert stale.cache_revision["TenantQuota"].source.startswith("decision d-2 of scheduler")
    caught_up = scheduler_state(TenantQuota=SeenVersions(918812, applied=918946))
    view = explain_status(msgspec.structs.replace(asked, processes=(caught_up,)))
    assert view.kinds_behind == ()
    assert view.cache_revision["TenantQuota"].value == 918946
    assert view.cache_revision["TenantQuota"].source.startswith("caches of scheduler; decision d-2 of")
    assert view.cache_revision["TenantQuota"].source.endswith("used 918812")


def test_without_records_the_reason_is_the_pods_condition_and_revisions_are_the_caches() -> None:
    asked = incident(decided=False)
    view = explain_status(asked)
    assert (view.last_reason.value, view.cache_revision) == ("quota/risk-zone-c", {})
    assert view.last_reason.source == "condition SchedulingRetrying of pod shop/risk-api-1-2"
    assert view.rollback_observed.value is None
    assert "no data" in view.rollback_observed.source
    state = scheduler_state(TenantQuota=SeenVersions(918900, applied=918946))
    known = explain_status(msgspec.structs.replace(asked, processes=(state,)))
    assert known.cache_revision == {"TenantQuota": Sourced(918946, "caches of scheduler")}
    assert known.kinds_behind == ()


def test_a_rollback_that_the_scheduler_has_not_seen_is_false() -> None:
    assert explain_status(incident(rollout_revision="918813")).rollback_observed.value is False


@pytest.mark.parametrize(("revision", "observed"), [(99, False), (100, True)])
def test_a_report_of_the_scheduler_decides_whether_the_rollback_is_observed(
    revision: int, observed: bool
) -> None:
    asked = incident()
    rollout = asked.objects.list("policyrollouts.fathom.dev")[0]
    rollout["status"] |= {
        "activationRevision": 100,
        "observedBy": [
            {"controller": "scheduler", "revision": revision},
            {"controller": "other", "revision": 1},
        ],
    }
    assert explain_status(asked).rollback_observed.value is observed


def test_a_rollback_of_another_scope_says_nothing_about_this_workload() -> None:
    asked = incident()
    asked.objects.list("policyrollouts.fathom.dev")[0]["spec"]["scope"] = {"namespaces": ["elsewhere"]}
    assert explain_status(asked).rollback_observed.value is None


def test_replicas_that_do_not_exist_are_counted_as_pending() -> None:
    web = deployment(3)
    refused = condition(
        "ReplicaFailure",
        "True",
        "FailedCreate",
        "exceeded quota: room, requested: pods=1, used: pods=1, limited: pods=1",
    )
    own = replica_set(web, 3, refused)
    view = explain_status(evidence(web, own, pod("web-1-0", own)))
    assert view.pending_replicas.value == ["2 not created"]
    assert view.last_reason.value == "quota"


def test_a_workload_that_is_well_has_no_reason() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    ready = pod("web-1-0", own)
    view = explain_status(evidence(web, own, ready, decisions=(recorded("scheduler", ready),)))
    assert (view.pending_replicas.value, view.last_reason) == (
        [],
        Sourced(None, "no pod of it waits for a node"),
    )


# Its first line.


def serving(name: str, own: Obj, status: str) -> Obj:
    seen = pod(name, own)
    seen["status"]["conditions"].append(condition("fathom.dev/Serving", status))
    return seen


def test_the_first_line_of_a_status_says_how_the_workload_is() -> None:
    assert explain_status(incident()).summary == (
        "deployment/risk-api: 2 of 3 replicas are ready; 1 is not ready: quota/risk-zone-c; the scheduler has"
        " not seen the newest change of TenantQuota"
    )


@pytest.mark.parametrize(
    ("serve", "line"),
    [
        (("True", "True", "True"), "deployment/web: all 3 replicas serve"),
        (
            ("True", "True", "False"),
            "deployment/web: 2 of 3 replicas serve; 1 is ready and not reached by the gateway",
        ),
        (("True",), "deployment/web: 1 of 3 replicas serve; 2 are not created"),
    ],
)
def test_a_status_counts_what_serves_where_a_service_has_the_pods(serve: tuple[str, ...], line: str) -> None:
    web = deployment(3)
    own = replica_set(web, 3)
    pods = [serving(f"web-1-{number}", own, status) for number, status in enumerate(serve)]
    assert explain_status(evidence(web, own, *pods)).summary == line


def test_a_status_of_a_rollout_that_is_stuck_counts_the_old_pods_that_still_serve() -> None:
    web = deployment(2)
    new, old = replica_set(web, 1), replica_set(web, 2, name="web-0")
    old["spec"]["template"] = {"metadata": {"labels": {"v": "0"}}}
    late = waiting("web-1-0", new, "image/pull", "no such image")
    line = explain_status(evidence(web, new, old, late, pod("web-0-0", old), pod("web-0-1", old))).summary
    assert line == (
        "deployment/web: all 2 replicas are ready; 1 of the newest template is not ready: image/pull"
    )


def test_a_status_of_nothing_wanted_and_of_a_pod() -> None:
    web = deployment(0)
    assert (
        explain_status(evidence(web, replica_set(web, 0))).summary == "deployment/web: no replica is wanted"
    )
    alone = pod("alone")
    assert explain_status(evidence(alone)).summary == "pod/alone: 1 of 1 pods are ready"


def test_the_status_of_what_does_not_exist_is_an_error() -> None:
    asked = incident()
    missing = msgspec.structs.replace(asked, subject=ObjectRef("deployments.apps", "shop", "nothing"))
    with pytest.raises(NoSubject, match="Deployment shop/nothing does not exist"):
        explain_status(missing)


def test_names_are_hidden_from_users_who_may_not_see_them() -> None:
    asked = incident()
    hidden = explain_status(
        msgspec.structs.replace(asked, may_read_nodes=False, readable=frozenset({"shop"}))
    )
    assert isinstance(hidden, StatusView)
    assert hidden.latest_revision["Node"].source == "Node: metadata.resourceVersion"
    assert at(0)
