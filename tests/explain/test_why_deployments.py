"""Why a Deployment or ReplicaSet is not as wanted; most cases have a decoy, wrong too and not decisive."""

from __future__ import annotations

import msgspec
import pytest
from tests.explain.evidence_of import (
    TEMPLATE,
    at,
    condition,
    deployment,
    evidence,
    explain,
    failing,
    lease,
    obj,
    pod,
    recorded,
    replica_set,
    waiting,
    write,
)

from fathom.explain.evidence import ObjectRef
from fathom.explain.why.answer import CauseGroup, Change
from fathom.explain.why_of.kinds import NoExplanation, explain_object, wanted_records
from fathom.model.decision import KeptDecision, Outcome
from fathom.model.objects import Obj, key_of

REFUSED = (
    'pods "web-1-2" is forbidden: exceeded quota: room, requested: pods=1,requests.cpu=100m,'
    " used: pods=2,requests.cpu=200m, limited: pods=2,requests.cpu=5"
)


def ready_pods(owner: Obj, count: int) -> list[Obj]:
    return [pod(f"{owner['metadata']['name']}-{number}", owner) for number in range(count)]


def room(pods: str, *, used: str, name: str = "room", **hard: str) -> Obj:
    return obj(
        "ResourceQuota",
        name,
        spec={"hard": {"pods": pods, "requests.cpu": "5", **hard}},
        status={"used": {"pods": used, "requests.cpu": "200m"}},
    )


def test_a_complete_deployment_is_as_wanted_though_another_is_not() -> None:
    web, other = deployment(2), deployment(2, name="other")
    own = replica_set(web, 2)
    answer = explain(web, other, own, *ready_pods(own, 2))
    assert (answer.as_wanted, answer.cause, answer.change) == (True, "", None)
    assert answer.summary == "Deployment shop/web has all 2 replicas ready"


def deaf_pods(owner: Obj, count: int, *, of: int, node: str = "n1") -> list[Obj]:
    deaf = condition("fathom.dev/Serving", "False", "NotReached", "the gateway cannot connect to the pod")
    name = owner["metadata"]["name"]
    return [
        pod(f"{name}-{number}", owner, *((deaf,) if number < count else ()), node=node)
        for number in range(of)
    ]


FRONT = obj("Service", "front", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})


@pytest.mark.parametrize(
    ("deaf", "verdict", "reaches"),
    [(3, "is not served", "none"), (1, "is served in part", "only 2")],
)
def test_ready_replicas_that_the_gateway_does_not_reach_are_not_as_wanted(
    deaf: int, verdict: str, reaches: str
) -> None:
    web = deployment(3)
    own = replica_set(web, 3)
    answer = explain(web, own, FRONT, *deaf_pods(own, deaf, of=3))
    assert answer.summary.startswith(
        f"Deployment shop/web {verdict} with 3 of 3 replicas ready: the gateway reaches {reaches} of its 3"
        " ready pods for Service front: the gateway cannot connect to the pod. Change: "
    )
    assert answer.change == Change(
        "check that the containers listen on the target port of Service front",
        "fathom why service/front -n shop",
        "the owner of service/front",
    )
    assert [(group.cause, group.count) for group in answer.causes] == [("gateway", deaf)]


def test_a_replica_set_that_the_gateway_does_not_reach_is_not_served() -> None:
    alone = replica_set(deployment(1), 1)
    alone["metadata"].pop("ownerReferences")
    answer = explain(alone, FRONT, *deaf_pods(alone, 1, of=1))
    assert answer.verdict == "is not served with 1 of 1 replicas ready"


def test_pods_of_no_service_and_simulated_ones_need_nobody_who_reaches_them() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    assert explain(web, own, *deaf_pods(own, 1, of=1)).as_wanted
    node = obj("Node", "sim", namespace="", metadata={"labels": {"fathom.dev/driver": "simulated"}})
    assert explain(web, own, FRONT, node, *deaf_pods(own, 1, of=1, node="sim")).as_wanted


def test_replicas_refused_by_a_quota_are_explained_where_no_pod_exists() -> None:
    """The decoy: another quota is full too, and one pod that exists has a bad image."""
    web = deployment(4)
    own = replica_set(web, 4, condition("ReplicaFailure", "True", "FailedCreate", REFUSED))
    bad = failing("web-1-1", own, "ErrImagePull", "no such image")
    answer = explain(
        web, own, pod("web-1-0", own), bad, room("2", used="2"), room("1", used="1", name="tight")
    )
    assert not answer.as_wanted
    assert answer.verdict == "is refused by quota with 1 of 4 replicas ready"
    assert answer.cause.startswith("2 pods are not created: exceeded quota: room, requested: pods=1")
    assert answer.change == Change(
        "raise pods to 4 in ResourceQuota room",
        """kubectl patch resourcequota room -n shop --type=merge -p '{"spec":{"hard":{"pods":"4"}}}'""",
        "whoever may update resourcequotas in shop",
    )
    assert [group.cause for group in answer.causes] == ["quota", "image"]
    assert [ref.name for ref in answer.related][:1] == ["room"]


def test_a_quota_that_has_room_by_now_needs_no_change() -> None:
    web = deployment(3)
    own = replica_set(web, 3, condition("ReplicaFailure", "True", "FailedCreate", REFUSED))
    answer = explain(web, own, *ready_pods(own, 2), room("9", used="2"))
    assert answer.change is not None
    assert (answer.change.command, answer.change.who) == ("", "nobody has to act")


def test_a_quota_that_wants_requests_names_them() -> None:
    web = deployment(1)
    why = 'pods "web-1-0" is forbidden: failed quota: room: must specify requests.cpu for: main'
    own = replica_set(web, 1, condition("ReplicaFailure", "True", "FailedCreate", why))
    answer = explain(web, own, room("9", used="0"))
    assert answer.change is not None
    assert answer.change.command == "kubectl set resources deployment/web -n shop --requests=cpu=100m"
    assert answer.change.who == "the owner of deployment/web"


@pytest.mark.parametrize("message", [REFUSED, 'pods "web-1-2" is forbidden: kein Platz', "quota a-wide"])
@pytest.mark.parametrize("said", ["condition", "outcome"])
def test_which_quota_refuses_follows_from_the_quotas_however_the_refusal_is_worded(
    message: str, said: str
) -> None:
    """A pod that exists shows what the next one requests: admission has given it a request."""
    web = deployment(4)
    failure = condition("ReplicaFailure", "True", "FailedCreate", message)
    refused = (condition("fathom.dev/PodsRefused", "True", "quota"),) if said == "condition" else ()
    own = replica_set(web, 4, failure, *refused)
    record = recorded("replicasets", own)
    outcome = Outcome(id="d", time_ns=1, result="rejected", verb="create", check="QuotaExceeded")
    kept = KeptDecision(record.kept.decision, (outcome,))
    records = (msgspec.structs.replace(record, kept=kept),) if said == "outcome" else ()
    wide = obj("ResourceQuota", "a-wide", spec={"hard": {"pods": "90"}}, status={"used": {"pods": "2"}})
    pods = [pod("web-1-0", own), pod("web-1-1", own)]
    for each in pods:
        requests = {"requests": {"cpu": "100m"}}
        each["spec"]["containers"] = [{"name": "main", "resources": requests}]
    answer = explain(web, own, *pods, wide, room("2", used="2"), decisions=records)
    assert answer.verdict == "is refused by quota with 2 of 4 replicas ready"
    assert answer.change == Change(
        "raise pods to 4 in ResourceQuota room",
        """kubectl patch resourcequota room -n shop --type=merge -p '{"spec":{"hard":{"pods":"4"}}}'""",
        "whoever may update resourcequotas in shop",
    )
    assert [ref.name for ref in answer.related][:1] == ["room"]


def test_a_quota_that_wants_requests_is_found_by_what_the_template_lacks() -> None:
    web = deployment(1)
    failure = condition("ReplicaFailure", "True", "FailedCreate", "fehlt etwas")
    own = replica_set(web, 1, failure, condition("fathom.dev/PodsRefused", "True", "quota"))
    answer = explain(web, own, room("9", used="0"))
    assert answer.change is not None
    assert answer.change.command == "kubectl set resources deployment/web -n shop --requests=cpu=100m"


def test_a_refusal_by_admission_is_read_from_an_event_where_no_condition_has_it() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    older = {"uid": "uid-ReplicaSet-older", "name": "web-1"}
    events = [
        obj("Event", "e1", involvedObject=about, reason="FailedCreate", message=message, lastTimestamp=at(-5))
        for about, message in (
            ({"uid": own["metadata"]["uid"]}, 'Error creating: pods "web-1-0" is forbidden: no root'),
            (older, "Error creating: of a ReplicaSet that is gone"),
        )
    ]
    answer = explain(web, own, events[0])
    assert answer.cause == "1 pod is not created: no root"
    assert "gone" not in explain(web, own, events[1]).cause


def test_pods_are_grouped_by_cause_and_the_largest_group_is_decisive() -> None:
    web = deployment(5)
    own = replica_set(web, 5)
    pods = [
        pod("web-1-0", own),
        failing("web-1-1", own, "ErrImagePull", "no such image"),
        *(waiting(f"web-1-{number}", own, "quota/risk-zone-c", "no quota") for number in (2, 3, 4)),
    ]
    answer = explain(web, own, *pods, obj("TenantQuota", "risk", namespace=""))
    assert answer.verdict == "is not ready with 1 of 5 replicas ready"
    assert answer.cause == "3 pods are not ready: quota/risk-zone-c (no quota); also 1 pod: image"
    assert answer.causes == (
        CauseGroup("quota/risk-zone-c", 3, ("shop/web-1-2", "shop/web-1-3", "shop/web-1-4"), "no quota"),
        CauseGroup("image", 1, ("shop/web-1-1",), "ErrImagePull: no such image"),
    )
    assert answer.change is not None
    assert answer.change.command == "kubectl edit tenantquota risk"


def test_a_container_killed_for_memory_gets_a_higher_limit() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    killed = failing(
        "web-1-0",
        own,
        "CrashLoopBackOff",
        lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at(-5)}},
    )
    killed["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    answer = explain(web, own, killed)
    assert (
        "memory (container main was killed because it needed more than its memory limit 64Mi)" in answer.cause
    )
    assert answer.change is not None
    assert (
        answer.change.command == "kubectl set resources deployment/web -n shop -c main --limits=memory=128Mi"
    )


@pytest.mark.parametrize("reason", ["ErrImagePull", "CrashLoopBackOff"])
def test_a_new_template_that_does_not_start_is_undone_while_the_old_one_serves(reason: str) -> None:
    """Nobody but its author knows the right image or program; that the template before works can be seen."""
    web = deployment(2)
    old, new = replica_set(web, 1), replica_set(web, 1)
    old["metadata"] = {**old["metadata"], "name": "web-0", "uid": "uid-web-0"}
    old["spec"]["template"] = {**TEMPLATE, "spec": {"containers": [{"name": "main", "image": "web:0"}]}}
    bad = failing("web-1-0", new, reason, "no such image")
    answer = explain(web, old, new, pod("web-0-0", old), bad)
    assert answer.change == Change(
        "return to the template before, whose pods are ready",
        "kubectl rollout undo deployment/web -n shop",
        "the owner of deployment/web",
    )
    alone = explain(web, new, bad)
    assert alone.change is not None
    assert alone.change.what != answer.change.what


def test_a_paused_rollout_says_how_to_resume_it() -> None:
    """The decoy: a pod of the old template is not ready."""
    web = deployment(2, paused=True)
    web["spec"]["template"] = {**TEMPLATE, "spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    old = replica_set(web, 2)
    answer = explain(web, old, pod("web-1-0", old), failing("web-1-1", old, "CrashLoopBackOff"))
    assert answer.verdict == "is paused with 0 of 2 replicas ready beside 1 of older templates"
    assert answer.change is not None
    assert answer.change.command == "kubectl rollout resume deployment/web -n shop"


def test_a_paused_deployment_without_anything_to_roll_out_is_as_wanted() -> None:
    web = deployment(1, paused=True)
    own = replica_set(web, 1)
    assert explain(web, own, pod("web-1-0", own)).as_wanted


def test_a_rollout_paused_by_an_override_names_it_and_its_end() -> None:
    web = deployment(1)
    web["spec"]["template"] = {**TEMPLATE, "spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    old = replica_set(web, 1)
    freeze, expired = (
        obj(
            "SchedulerOverride",
            name,
            spec={
                "target": "workload/web",
                "reason": "incident",
                "expiresAfter": "1h",
                "changes": {"pauseRollout": True},
            },
            status={"expiresAt": at(end_s)},
        )
        for name, end_s in (("freeze", 900), ("expired", -900))
    )
    answer = explain(web, old, pod("web-1-0", old), expired, freeze)
    assert answer.cause == f"the override freeze pauses its rollout until {at(900)}"
    assert answer.change is not None
    assert answer.change.command == "kubectl delete scheduleroverride freeze -n shop"


def test_a_rollout_beyond_its_deadline_is_explained_by_its_pods() -> None:
    late = condition("Progressing", "False", "ProgressDeadlineExceeded", 'ReplicaSet "web-1" has timed out')
    web = deployment(2, late, progressDeadlineSeconds=60)
    own = replica_set(web, 2)
    answer = explain(web, own, pod("web-1-0", own), failing("web-1-1", own, "ErrImagePull", "no such image"))
    assert answer.verdict.startswith("is stuck")
    assert answer.cause.startswith("1 pod is not ready: image (ErrImagePull: no such image)")
    assert "its deadline of 60 s" in answer.cause


def test_a_rollout_that_goes_on_step_by_step_names_its_limits() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    web = deployment(3, strategy=rolling)
    web["spec"]["template"] = {**TEMPLATE, "spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    old, new = replica_set(web, 3), replica_set(web, 1, name="web-2", template=web["spec"]["template"])
    answer = explain(web, old, new, *ready_pods(old, 3), *ready_pods(new, 1))
    assert answer.verdict.startswith("is rolling out")
    assert "1 of 3 replicas have the newest template, and 3 old pods are left" in answer.cause
    assert "maxSurge 1, maxUnavailable 0" in answer.cause


def test_pods_that_are_ready_for_too_short_a_time_are_waited_for() -> None:
    web = deployment(2, minReadySeconds=600)
    own = replica_set(web, 2, minReadySeconds=600)
    answer = explain(web, own, *ready_pods(own, 2))
    assert answer.cause == "2 pods are ready for less than minReadySeconds 600"
    assert answer.change == Change("wait 300 s", "", "nobody has to act")


@pytest.mark.parametrize(("renewed_s", "says"), [(2, False), (40, True)])
def test_missing_pods_are_blamed_on_us_only_when_nobody_leads(renewed_s: float, says: bool) -> None:
    web = deployment(2)
    own = replica_set(web, 2)
    answer = explain(web, own, pod("web-1-0", own), lease("controllers", renewed_s=renewed_s))
    assert ("no process leads: lease fathom-system/controllers" in answer.cause) is says
    assert not answer.as_wanted


def test_a_generation_that_its_controller_has_not_observed_is_not_as_wanted() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    web["metadata"]["generation"] = 2
    answer = explain(web, own, pod("web-1-0", own), lease("controllers", renewed_s=90))
    assert answer.cause.startswith(
        "its controller has observed generation 1, but the newest is 2: no process"
    )
    assert answer.change is not None
    assert answer.change.command == "fathom serve controllers"


def test_a_deployment_that_is_gone_says_who_deleted_it() -> None:
    web, other = deployment(1), deployment(1, name="other")
    audit = (
        write("bob", other, verb="delete"),
        write("alice", web, verb="delete", decision="d-9"),
        write("carol", web, verb="delete", code=403, revision=0),
    )
    gone = evidence(other, audit=audit)
    asked = evidence(web, audit=audit)
    answer = explain_object(type(gone)(subject=asked.subject, objects=gone.objects, audit=audit))
    assert not answer.as_wanted
    assert answer.verdict == f"was deleted by alice at {at(-60)}"
    assert answer.cause == "decision d-9"


def test_who_deleted_a_deployment_is_who_was_last_to_commit_and_not_the_last_in_the_log() -> None:
    """An earlier Deployment of this name was deleted by bob, and the answer to that took long."""
    web = deployment(1)
    audit = (
        write("alice", web, verb="delete", revision=48),
        msgspec.structs.replace(write("bob", web, verb="delete", revision=41), uid="uid-of-an-earlier-one"),
    )
    asked = ObjectRef("deployments.apps", *key_of(web))
    gone = msgspec.structs.replace(evidence(deployment(1, name="other"), audit=audit), subject=asked)
    assert explain_object(gone).verdict == f"was deleted by alice at {at(-60)}"
    marked = {**web, "metadata": {**web["metadata"], "deletionTimestamp": at(-60)}}
    again = (write("alice", web, verb="delete", revision=48), write("bob", web, verb="delete", revision=41))
    assert explain(marked, audit=again).verdict == f"is being deleted by alice since {at(-60)}"


def test_a_deployment_kept_by_a_finalizer_names_it() -> None:
    web = deployment(1)
    web["metadata"] |= {
        "deletionTimestamp": at(-30),
        "finalizers": ["foregroundDeletion", "example.com/backup"],
    }
    answer = explain(web)
    assert (answer.as_wanted, answer.cause) == (False, "finalizer example.com/backup keeps it")


def test_a_replica_set_of_a_deployment_is_changed_through_the_deployment() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    bad = failing("web-1-0", own, "ErrImagePull", "no such image")
    answer = explain(own, web, bad)
    assert answer.change is not None
    assert answer.change.command == "kubectl set image deployment/web -n shop main=IMAGE"
    assert [ref.resource for ref in answer.related] == ["pods", "deployments.apps"]


def test_the_last_decision_is_cited_with_what_it_saw() -> None:
    from fathom.model.decision import SeenVersions

    web = deployment(1)
    own = replica_set(web, 1)
    decision = recorded("deployments", web, "patch", seen={"ReplicaSet": SeenVersions(5)}, message="scale up")
    other = recorded("deployment-progress", web, "status", at_s=-1)
    answer = explain(web, own, pod("web-1-0", own), decisions=(decision, other))
    assert [each.id for each in answer.decisions] == ["d-deployments"]
    assert [(each.kind, each.used, each.latest) for each in answer.freshness] == [("ReplicaSet", 5, 7)]


def test_names_in_namespaces_that_the_user_may_not_read_are_counts() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    bad = failing("web-1-0", own, "ErrImagePull", "no such image")
    answer = explain(web, own, bad, readable=frozenset({"other"}))
    assert [(group.count, group.objects) for group in answer.causes] == [(1, ())]


def test_a_kind_without_an_explanation_is_refused() -> None:
    quota = room("1", used="0")
    with pytest.raises(NoExplanation, match="resourcequotas cannot be explained"):
        explain(quota)


def test_records_are_wanted_of_the_workload_what_it_owns_and_its_autoscaler() -> None:
    web = deployment(1)
    own = replica_set(web, 1)
    hpa = obj(
        "HorizontalPodAutoscaler", "hpa", spec={"scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    )
    asked = evidence(web, own, pod("web-1-0", own), pod("stranger"), hpa)
    query = wanted_records(asked.subject, asked.objects)
    assert [ref.name for ref in query.objects] == ["web", "web-1", "web-1-0", "hpa"]
