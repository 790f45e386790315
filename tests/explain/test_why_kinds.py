"""Why Jobs, nodes, Services, autoscalers, rollouts, overrides and budgets are not as wanted, with decoys."""

from __future__ import annotations

from typing import Any

import pytest
from tests.explain.evidence_of import (
    at,
    condition,
    deployment,
    evidence,
    explain,
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

from fathom.explain.evidence import ProcessState
from fathom.explain.why.answer import CauseGroup
from fathom.explain.why_of.kinds import wanted_records
from fathom.model.decision import Considered, SeenVersions
from fathom.model.objects import Obj

# Jobs.


def job(*conditions: Obj, status: Obj | None = None, **spec: Any) -> Obj:
    whole = {"completions": 1, "parallelism": 1, "backoffLimit": 6, **spec}
    return obj("Job", "load", spec=whole, status={"conditions": list(conditions), **(status or {})})


def ended(name: str, owner: Obj, code: int, *, ago_s: float = 100, reason: str = "Error") -> Obj:
    terminated = {"exitCode": code, "reason": reason, "finishedAt": at(-ago_s), "startedAt": at(-ago_s - 5)}
    statuses = [{"name": "main", "state": {"terminated": terminated}}]
    phase = "Failed" if code else "Succeeded"
    return pod(name, owner, ready=False, phase=phase, containerStatuses=statuses)


def test_a_complete_job_is_as_wanted_though_a_pod_failed_on_the_way() -> None:
    done = job(condition("Complete", "True"), status={"succeeded": 1, "failed": 1})
    answer = explain(done, ended("load-0", done, 3), ended("load-1", done, 0))
    assert (answer.as_wanted, answer.verdict) == (True, "is complete with 1 of 1 completions")


def test_a_failed_job_names_the_exit_code_of_its_pods() -> None:
    """The decoy: a pod of another Job of the same name, which is gone."""
    limit = condition("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    failed = job(limit, status={"failed": 2})
    older = {**failed, "metadata": {**failed["metadata"], "uid": "uid-older"}}
    answer = explain(failed, ended("load-0", failed, 42), ended("load-9", older, 7))
    assert not answer.as_wanted
    assert answer.verdict == "has failed with 0 of 1 completions"
    assert answer.cause.startswith("BackoffLimitExceeded: Job has reached the specified backoff limit; ")
    assert "exited with code 42" in answer.cause
    assert answer.change is not None
    assert answer.change.who == "the owner of job/load"


def test_a_suspended_job_says_who_suspended_it() -> None:
    suspended = job(suspend=True)
    audit = (
        write("alice", suspended, "spec.suspend", at_s=-90),
        write("system:fathom:controllers", suspended, "status.conditions", at_s=-80),
    )
    answer = explain(suspended, audit=audit)
    assert answer.cause == f"spec.suspend is true by alice since {at(-90)}"
    assert answer.change is not None
    assert answer.change.command.startswith("kubectl patch job load -n shop --type=merge")


def test_a_job_backs_off_after_a_failure() -> None:
    retrying = job(status={"failed": 1, "startTime": at(-60)})
    answer = explain(retrying, ended("load-0", retrying, 1, ago_s=4))
    assert answer.verdict == "is backing off with 0 of 1 completions"
    assert "the next is created in 6 s" in answer.cause


def test_a_job_whose_pod_waits_has_the_pods_cause() -> None:
    running = job(status={"active": 1, "startTime": at(-60)})
    answer = explain(running, waiting("load-0", running, "capacity", "0/2 nodes are available"))
    assert answer.cause == "1 pod is not ready: capacity (0/2 nodes are available)"


def test_a_job_whose_pods_run_is_as_wanted() -> None:
    running = job(status={"active": 1, "startTime": at(-60)})
    assert explain(running, pod("load-0", running)).as_wanted


def test_a_job_refused_by_a_quota_is_explained_from_its_progress() -> None:
    refused = job(status={"startTime": at(-60)})
    message = "exceeded quota: room, requested: pods=1, used: pods=3, limited: pods=3"
    progress = obj(
        "WorkloadProgress",
        "job-load",
        spec={"workload": {"uid": refused["metadata"]["uid"]}},
        status={"conditions": [condition("ReplicaFailure", "True", "FailedCreate", message)]},
    )
    answer = explain(refused, progress)
    assert answer.verdict.startswith("is refused by quota")
    assert answer.change is not None
    assert '"pods":"4"' in answer.change.command


# Nodes.


def test_a_healthy_node_is_as_wanted_whatever_taint_people_gave_it() -> None:
    assert explain(node()).as_wanted
    dedicated = node(taints=({"key": "pool", "value": "db", "effect": "NoSchedule"},))
    answer = explain(dedicated, audit=(write("bob", dedicated, "spec.taints[key=pool]", at_s=-9),))
    assert answer.as_wanted
    assert answer.cause == f"taint pool=db:NoSchedule, set by bob since {at(-9)}"


def test_a_cordoned_node_says_by_whom_and_since_when() -> None:
    """The decoys: an earlier uncordon, a later write of other fields, and the same write refused."""
    cordoned = node("n1", taints=({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},),
                    unschedulable=True)  # fmt: skip
    audit = (
        write("carol", cordoned, "spec.unschedulable", at_s=-900),
        write("alice", cordoned, "spec.unschedulable", at_s=-600, decision="d-7"),
        write("mallory", cordoned, "spec.unschedulable", at_s=-500, code=403, revision=0),
        write("system:fathom:controllers", cordoned, "spec.taints", at_s=-100),
    )
    answer = explain(cordoned, audit=audit)
    assert (answer.as_wanted, answer.verdict) == (False, "is cordoned")
    assert answer.cause == f"cordoned by alice, 10m ago ({at(-600)}, decision d-7)"
    assert answer.change is not None
    assert answer.change.command == "kubectl uncordon n1"


def test_who_cordoned_a_node_is_who_was_last_to_commit_and_not_the_last_in_the_log() -> None:
    """Carol's cordon was taken back by bob before alice's; its answer took long."""
    cordoned = node("n1", unschedulable=True)
    audit = (
        write("bob", cordoned, "spec.unschedulable", at_s=-650, revision=41),
        write("alice", cordoned, "spec.unschedulable", at_s=-600, revision=42),
        write("carol", cordoned, "spec.unschedulable", at_s=-540, revision=40),
    )
    assert explain(cordoned, audit=audit).cause == f"cordoned by alice, 10m ago ({at(-600)})"


def test_without_an_audit_log_the_cordon_has_no_author() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": at(-50)}
    answer = explain(node("n1", taints=(taint,), unschedulable=True))
    assert answer.cause == f"cordoned since {at(-50)}; who did it: no data"


def test_a_drain_names_the_budget_that_keeps_pods() -> None:
    cordoned = node("n1", unschedulable=True)
    evicted = pod("web-0", None, condition("DisruptionTarget", "True", "EvictionByEvictionAPI"),
                  metadata={"deletionTimestamp": at(20)})  # fmt: skip
    kept, elsewhere = pod("web-1"), pod("web-2", node="n2")
    budget = obj(
        "PodDisruptionBudget",
        "web",
        spec={"selector": {"matchLabels": {"app": "web"}}},
        status={"disruptionsAllowed": 0},
    )
    answer = explain(cordoned, evicted, kept, elsewhere, budget)
    drained = (
        "it is being drained: 1 pods are being evicted, 1 stay,"
        " and 1 of them are kept by PodDisruptionBudget shop/web"
    )
    assert drained in answer.cause
    kept_by = CauseGroup("budget/shop/web", 1, ("shop/web-1",), "it allows no disruption")
    assert kept_by in answer.causes


def test_a_drain_is_known_from_the_evictions_that_were_refused() -> None:
    """They are on record about the pods of the node, so a question about a cordoned node asks for these."""
    cordoned, kept, elsewhere = node("n1", unschedulable=True), pod("web-0"), pod("web-1", node="n2")
    held = evidence(cordoned, kept, elsewhere)
    query = wanted_records(held.subject, held.objects)
    assert [each.name for each in query.objects] == ["n1", "web-0"]
    ready = evidence(node("n1"), kept)
    assert [each.name for each in wanted_records(ready.subject, ready.objects).objects] == ["n1"]
    refused = write("alice", kept, verb="create", subresource="eviction", code=429, revision=0)
    answer = explain(cordoned, kept, elsewhere, audit=(refused,))
    assert answer.cause.endswith("; it is being drained by alice: 0 pods are being evicted, 1 stay")


def test_an_eviction_that_was_refused_for_an_earlier_pod_of_the_name_is_no_drain() -> None:
    """A pod's name is that of its slot: the pod that replaces it has the same."""
    cordoned, kept = node("n1", unschedulable=True), pod("web-0")
    refused = write("alice", kept, verb="create", subresource="eviction", code=429, revision=0, at_s=-700)
    assert "drained" not in explain(cordoned, kept, audit=(refused,)).summary


def test_a_drain_that_asks_no_more_is_not_under_way() -> None:
    """Whoever drains asks again every few seconds."""
    cordoned, kept = node("n1", unschedulable=True), pod("web-0")
    refused = write("alice", kept, verb="create", subresource="eviction", code=429, revision=0, at_s=-480)
    answer = explain(cordoned, kept, audit=(refused,))
    assert answer.cause.endswith(
        "; nobody drains it now: alice asked last, 8m ago, and was refused; 1 pods stay"
    )


def test_an_eviction_that_was_refused_before_the_node_was_cordoned_is_no_drain() -> None:
    cordoned, kept = node("n1", unschedulable=True), pod("web-0")
    refused = write("alice", kept, verb="create", subresource="eviction", code=429, revision=0, at_s=-60)
    by_dora = write("dora", cordoned, "spec.unschedulable", at_s=-30)
    assert "drain" not in explain(cordoned, kept, audit=(refused, by_dora)).summary


def test_a_lost_node_comes_before_its_cordon() -> None:
    lost = node(
        "n1",
        condition("Ready", "Unknown", "NodeStatusUnknown"),
        condition("fathom.dev/Suspect", "True", "Evidence", "its lease was not renewed"),
        condition("fathom.dev/Unreachable", "True", "Evidence", "its lease was not renewed"),
        condition(
            "fathom.dev/Lost", "True", "Evidence", "gateway: no pod answers; its lease was not renewed"
        ),
        unschedulable=True,
    )
    answer = explain(lost, audit=(write("alice", lost, "spec.unschedulable"),))
    assert answer.verdict == "is lost and cordoned"
    assert answer.cause.startswith(
        f"gateway: no pod answers; its lease was not renewed (since {at(-300)}); also"
    )
    assert "by alice" in answer.cause


def test_an_override_that_cordons_a_node_is_named_and_an_expired_one_is_not() -> None:
    overrides = [
        obj(
            "SchedulerOverride",
            name,
            namespace="fathom-system",
            spec={"target": "node/n1", "reason": "disk", "expiresAfter": "1h", "changes": {"cordon": True}},
            status={"expiresAt": at(end_s), "author": "dora"},
        )
        for name, end_s in (("old", -10), ("now", 600))
    ]
    answer = explain(node("n1"), *overrides)
    assert answer.verdict == "is cordoned by an override"
    assert answer.cause == f"the override fathom-system/now by dora keeps pods away until {at(600)}: disk"
    assert [ref.name for ref in answer.related] == ["now"]


# Services.


def service(selector: dict[str, str] | None = None, *, target: Any = 8080, **spec: Any) -> Obj:
    ports = [{"port": 80, "targetPort": target}]
    return obj("Service", "web", spec={"selector": selector or {"app": "web"}, "ports": ports, **spec})


def endpoint_slice(*ready: bool, name: str = "web") -> Obj:
    return obj(
        "EndpointSlice",
        f"{name}-ipv4",
        metadata={"labels": {"kubernetes.io/service-name": name}},
        ports=[{"port": 8080}],
        endpoints=[{"conditions": {"ready": each}} for each in ready],
    )


def test_a_service_with_one_ready_endpoint_is_as_wanted_and_lists_the_others() -> None:
    answer = explain(service(), endpoint_slice(True, False), pod("a"), failing("b", None, "ErrImagePull"))
    assert (answer.as_wanted, answer.verdict) == (True, "has 1 ready endpoint")
    assert [group.cause for group in answer.causes] == ["image"]


def test_a_selector_that_matches_nothing_names_the_nearest_pod() -> None:
    answer = explain(
        service({"app": "web", "tier": "frontend"}),
        pod("web-0", labels={"app": "web", "tier": "front"}),
        pod("db-0", labels={"app": "db"}),
    )
    assert answer.verdict == "has no endpoints"
    assert (
        answer.cause
        == "no pod has the labels app=web,tier=frontend; the nearest is pod web-0, with tier=front"
    )
    assert answer.change is not None
    assert """-p '{"spec":{"selector":{"tier":"front"}}}'""" in answer.change.command


def test_a_port_name_that_no_container_has_is_named() -> None:
    """The decoy: the pod is not ready either, but it would not help if it were."""
    named = failing("web-0", None, "ErrImagePull", "no such image")
    named["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
    answer = explain(service(target="web"), named)
    assert answer.cause == "no container of its 1 pods has a port named web; they have http"
    assert answer.change is not None
    assert '"value":"http"' in answer.change.command


def test_pods_that_are_not_ready_explain_a_service_without_endpoints() -> None:
    answer = explain(service(), endpoint_slice(), failing("web-0", None, "ErrImagePull", "no such image"))
    assert answer.cause == "none of its 1 pods is ready: image (ErrImagePull: no such image)"


def test_ready_pods_outside_of_slices_are_blamed_on_the_controller() -> None:
    answer = explain(
        service(), pod("web-0"), endpoint_slice(True, name="other"), lease("controllers", renewed_s=60)
    )
    assert answer.verdict == "has no ready endpoints"
    assert "no EndpointSlice lists them: no process leads" in answer.cause


def test_a_service_that_the_gateway_does_not_reach_is_not_as_wanted() -> None:
    deaf = pod("web-0", None, condition("fathom.dev/Serving", "False", "Refused", "connection refused"))
    answer = explain(service(), endpoint_slice(True), deaf)
    assert answer.cause == "the gateway does not reach 1 of its pods: connection refused"


def test_a_service_without_a_selector_is_as_wanted_with_endpoints_of_its_own() -> None:
    alone = service()
    alone["spec"].pop("selector")
    assert explain(alone, endpoint_slice(True)).as_wanted
    assert explain(alone, endpoint_slice(False)).cause.startswith("it has no selector")


# Autoscalers.


def autoscaler(*conditions: Obj, status: Obj | None = None, **spec: Any) -> Obj:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    whole = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "maxReplicas": 4,
        "metrics": [{"type": "Resource", "resource": cpu}],
        **spec,
    }
    reported = {
        "observedGeneration": 1,
        "currentReplicas": 4,
        "conditions": list(conditions),
        **(status or {}),
    }
    return obj("HorizontalPodAutoscaler", "hpa", spec=whole, status=reported)


ABLE = condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
ACTIVE = condition("ScalingActive", "True", "ValidMetricFound")


def test_an_autoscaler_that_keeps_its_target_cites_its_last_reason() -> None:
    hpa = autoscaler(ABLE, ACTIVE, condition("ScalingLimited", "False", "DesiredWithinRange"))
    answer = explain(hpa, decisions=(recorded("autoscaling", hpa, message="cpu at 95% of its target"),))
    assert (answer.as_wanted, answer.cause) == (True, "cpu at 95% of its target")


def test_an_autoscaler_at_its_limit_is_raised_to_what_its_metrics_ask_for() -> None:
    limited = condition("ScalingLimited", "True", "TooManyReplicas", "the desired replica count is more")
    use = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 90}}}
    answer = explain(autoscaler(ABLE, ACTIVE, limited, status={"currentMetrics": [use]}))
    assert answer.verdict == "is at its limit at 4 replicas"
    assert answer.change is not None
    assert answer.change.what == (  # 4 replicas at 90 % of 50 % need 7.2.
        "raise maxReplicas from 4 to 8, all that its metrics ask for; 5 is one replica more"
    )


def test_an_autoscaler_whose_metrics_ask_for_one_more_is_raised_by_one() -> None:
    limited = condition("ScalingLimited", "True", "TooManyReplicas", "the desired replica count is more")
    use = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 55}}}
    answer = explain(autoscaler(ABLE, ACTIVE, limited, status={"currentMetrics": [use]}))
    assert answer.change is not None
    assert answer.change.what == "raise maxReplicas from 4 to 5"


def test_fewer_than_the_minimum_is_what_a_minimum_is_for() -> None:
    assert explain(autoscaler(ABLE, ACTIVE, condition("ScalingLimited", "True", "TooFewReplicas"))).as_wanted


def test_a_held_autoscaler_has_the_cause_of_its_target() -> None:
    held = condition(
        "ScalingLimited", "True", "HeldByQuota", "1 of 2 replicas are not ready yet (quota/risk)"
    )
    web = deployment(2)
    own = replica_set(web, 2)
    stuck = waiting("web-1-1", own, "quota/risk-zone-c", "no quota")
    answer = explain(autoscaler(ABLE, ACTIVE, held), web, own, pod("web-1-0", own), stuck)
    assert answer.verdict == "is held at 4 replicas"
    assert answer.cause.endswith("1 pod is not ready: quota/risk-zone-c (no quota)")
    assert [ref.name for ref in answer.related] == ["web"]


@pytest.mark.parametrize(
    ("reason", "message", "command"),
    [
        ("ScalingDisabled", "zero", "kubectl scale deployment/web -n shop --replicas=1"),
        ("AmbiguousSelector", "controlled by multiple HPAs", "kubectl delete hpa hpa -n shop"),
        (
            "FailedGetResourceMetric",
            "unable to get resource metrics",
            "kubectl get pods.metrics.k8s.io -n shop -o yaml",
        ),
    ],
)
def test_an_autoscaler_without_metrics_says_what_to_do(reason: str, message: str, command: str) -> None:
    answer = explain(autoscaler(ABLE, condition("ScalingActive", "False", reason, message)))
    assert not answer.as_wanted
    assert answer.change is not None
    assert answer.change.command == command


@pytest.mark.parametrize("message", ["missing request for cpu in container main", "kein Wert"])
def test_requests_that_a_metric_lacks_are_seen_in_the_pods_and_not_in_the_message(message: str) -> None:
    hpa = autoscaler(ABLE, condition("ScalingActive", "False", "FailedGetResourceMetric", message))
    requests = {"resources": {"requests": {"cpu": "1"}}}

    def template(**more: Any) -> Obj:
        return {"spec": {"containers": [{"name": "main", **more}]}}

    unset, given = deployment(template=template()), deployment(template=template(**requests))
    owner = replica_set(unset)
    defaulted = {**pod("web-1", owner), "spec": template(**requests)["spec"]}
    commands = [
        "" if (change := explain(hpa, *objects).change) is None else change.command
        for objects in ((unset,), (given,), (unset, owner, defaulted))
    ]
    assert commands == [
        "kubectl set resources deployment/web -n shop --requests=cpu=100m",
        "kubectl get pods.metrics.k8s.io -n shop -o yaml",
        "kubectl get pods.metrics.k8s.io -n shop -o yaml",
    ]


@pytest.mark.parametrize("message", ["paused by the override other", "angehalten"])
def test_a_paused_autoscaler_names_the_override_that_pauses_its_target(message: str) -> None:
    hpa = autoscaler(ABLE, ACTIVE, condition("ScalingLimited", "True", "Paused", message))
    answer = explain(hpa, deployment(), override(pauseAutoscaler=True))
    assert answer.verdict.startswith("is paused")
    assert answer.change is not None
    assert answer.change.command == "kubectl delete scheduleroverride avoid -n shop"
    assert [related.name for related in answer.related] == ["avoid"]
    ended = explain(hpa, deployment(), override(ends_s=-5, pauseAutoscaler=True))
    assert ended.change is not None
    assert ended.change.command == ""


def test_an_autoscaler_whose_target_is_misspelt_names_the_one_that_exists() -> None:
    unable = condition("AbleToScale", "False", "FailedGetScale", "Deployment wbe does not exist")
    hpa = autoscaler(unable, scaleTargetRef={"kind": "Deployment", "name": "wbe"})
    answer = explain(hpa, deployment())
    assert answer.change is not None
    assert '"scaleTargetRef":{"name":"web"}' in answer.change.command


# PolicyRollouts.


def rollout(
    phase: str = "Canary", message: str = "", *, held: str = "", observers: tuple[Obj, ...] = (), **spec: Any
) -> Obj:
    status = {
        "phase": phase,
        "active": "v4",
        "canary": "v5",
        "percent": 10,
        "activationRevision": 100,
        "observedGeneration": 1,
        "observedBy": list(observers),
        "conditions": [condition("Progressing", "True", held or phase, message)],
    }
    return obj(
        "PolicyRollout", "canary", namespace="", spec={"from": "v4", "to": "v5", **spec}, status=status
    )


def observer(name: str, revision: int) -> Obj:
    return {"controller": name, "revision": revision, "observedGeneration": 1}


def test_a_rollout_names_every_observer_that_is_behind_and_none_that_is_not() -> None:
    canary = rollout(
        message="the caches of scheduler-b have not reached revision 100",
        held="NotObserved",
        observers=(observer("scheduler-a", 120), observer("scheduler-b", 90)),
    )
    answer = explain(canary, obj("SchedulingPolicy", "v5", namespace=""))
    assert answer.verdict == "is held by the gate observedBy at step 1 of 2, 10 %"
    assert answer.cause == "scheduler-b has reached revision 90 of 100"


def test_a_rollout_without_any_report_asks_for_the_component() -> None:
    states = (ProcessState(process="controllers", parts=("controllers",)),)
    answer = explain(rollout(), processes=states)
    assert answer.cause == "scheduler has not reported; it must reach revision 100"
    assert answer.change is not None
    assert answer.change.command == "fathom serve scheduler"


def test_a_step_that_only_lasts_is_as_wanted() -> None:
    canary = rollout(message="step 0 lasts 1m", observers=(observer("scheduler", 120),))
    assert explain(canary).as_wanted


def test_a_regression_names_its_gate_and_a_pause_comes_first() -> None:
    message = "3 of 4 pods under v5 are unschedulable, 0 of 9 under v4"
    seen = (observer("scheduler", 120),)
    answer = explain(rollout(message=message, held="PendingRegression", observers=seen))
    assert answer.verdict.startswith("is held by the gate noPendingRegression")
    assert answer.cause == message
    paused = explain(rollout(message=message, held="PendingRegression", observers=seen, paused=True))
    assert (paused.verdict, paused.as_wanted) == ("is paused at step 1 of 2, 10 %", False)


@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        ("SignalsTooOld", "is held by the gate signalsMaxAge"),
        ("PendingRegression", "is held by the gate noPendingRegression"),
        ("TroubleElsewhere", "is held by trouble elsewhere"),
        ("", "goes on"),
    ],
)
def test_what_holds_a_rollout_is_the_reason_of_its_condition_whatever_the_message(
    held: str, verdict: str
) -> None:
    seen = (observer("scheduler", 120),)
    for message in ("held: the signals are older than 30s", "3 of 4 are unschedulable", "angehalten"):
        answer = explain(rollout(message=message, held=held, observers=seen))
        assert answer.verdict.startswith(verdict)
        assert answer.as_wanted == (not held)


def test_a_rolled_back_rollout_says_why_and_a_complete_one_is_as_wanted() -> None:
    answer = explain(rollout("RolledBack", "3 of 4 pods under v5 are unschedulable"))
    assert answer.verdict == "was rolled back to v4"
    assert answer.cause == "3 of 4 pods under v5 are unschedulable"
    assert explain(rollout("Complete")).as_wanted


def test_a_rollout_of_a_missing_policy_has_not_begun() -> None:
    answer = explain(
        rollout("Pending", "there is no SchedulingPolicy v5"), obj("SchedulingPolicy", "v4", namespace="")
    )
    assert (answer.verdict, answer.cause) == ("has not begun", "there is no SchedulingPolicy v5")


# Overrides.


def override(
    *, ends_s: float = 900, target: str = "workload/web", acks: tuple[Obj, ...] = (), **changes: Any
) -> Obj:
    return obj(
        "SchedulerOverride",
        "avoid",
        metadata={"resourceVersion": "60"},
        spec={
            "target": target,
            "reason": "fire",
            "expiresAfter": "1h",
            "changes": changes or {"avoidZones": ["c"]},
        },
        status={"expiresAt": at(ends_s), "author": "alice", "acknowledgements": list(acks)},
    )


def test_an_active_override_says_who_honours_it_and_until_when() -> None:
    acks = ({"controller": "scheduler", "state": "Honoring"},)
    answer = explain(override(acks=acks), deployment())
    assert answer.as_wanted
    assert answer.verdict == f"is active until {at(900)} by alice, honoured by scheduler"


def test_an_override_whose_acknowledger_has_stopped_is_not_as_wanted() -> None:
    calm = override(acks=({"controller": "scheduler", "state": "Honoring"},))
    stopped = {"type": "Degraded", "status": "True", "message": "scheduler does not renew its lease"}
    calm["status"]["conditions"] = [stopped]
    answer = explain(calm, deployment())
    assert (answer.verdict, answer.cause) == ("is degraded", "scheduler does not renew its lease")
    calm["status"]["conditions"] = [{**stopped, "status": "False"}]
    assert explain(calm, deployment()).as_wanted


def test_an_override_that_a_controller_declined_is_not_as_wanted() -> None:
    acks = (
        {"controller": "scheduler", "state": "Honoring"},
        {"controller": "autoscaler", "state": "Declined", "reason": "NoEnforcer"},
    )
    answer = explain(override(acks=acks, avoidZones=["c"], pauseAutoscaler=True), deployment())
    assert (answer.verdict, answer.cause) == ("was declined", "autoscaler: NoEnforcer")


def test_a_decision_that_considered_the_override_is_evidence_and_another_overrides_is_not() -> None:
    avoid, subject = override(), pod("web-0")
    mine = Considered("avoid", 60, resource="scheduleroverrides.fathom.dev", uid=avoid["metadata"]["uid"])
    other = Considered("avoid", 60, resource="scheduleroverrides.fathom.dev", uid="uid-older")
    cited = explain(avoid, deployment(), decisions=(recorded("scheduler", subject, overrides=(mine,)),))
    assert cited.causes == (CauseGroup("cited", 1, ("scheduler",), "decision d-scheduler considered it"),)
    unknown = explain(avoid, deployment(), decisions=(recorded("scheduler", subject, overrides=(other,)),))
    assert unknown.causes[0].cause == "no data"
    assert unknown.as_wanted
    assert unknown.verdict.endswith("who honours it: no data")


@pytest.mark.parametrize(("revision", "state"), [(59, "behind"), (60, "observed")])
def test_the_schedulers_cache_shows_whether_it_can_honour_the_override(revision: int, state: str) -> None:
    processes = (scheduler_state(SchedulerOverride=SeenVersions(revision)),)
    answer = explain(override(), deployment(), processes=processes)
    assert (answer.causes[0].cause, answer.as_wanted) == (state, state == "observed")


def test_an_override_that_has_ended_or_has_no_target_is_not_as_wanted() -> None:
    assert explain(override(ends_s=-5), deployment()).cause == f"it ended at {at(-5)}"
    answer = explain(override(target="workload/wbe"), deployment())
    assert answer.cause == "there is no workload/wbe in shop"


def test_every_change_names_who_carries_it_out() -> None:
    made = override(pauseRepair=True, pauseExpansion=True, pauseRollout=True, raisePriority=5)
    answer = explain(made, deployment())
    assert [(group.cause, *group.objects) for group in answer.causes] == [
        ("no data", "scheduler"),
        ("no data", "autoscaler"),
        ("Honoring", "quota-controller"),
        ("no data", "deployment-controller"),
        ("no data", "repair-controller"),
    ]


def test_an_override_that_nobody_has_approved_says_who_could() -> None:
    waits = override()
    asked = {"required": True, "requestedAt": at(-60), "requestedBy": ["alice"]}
    waits["status"] = {"author": "alice", "approval": asked}
    answer = explain(waits, deployment())
    assert answer.change is not None
    assert (answer.verdict, answer.cause, answer.change.command, answer.change.who) == (
        "waits for approval",
        f"nobody has approved this spec: it is not in force, and lapses at {at(3540)}",
        "fathom override approve avoid -n shop",
        "somebody other than alice who may approve overrides in shop",
    )
    asked |= {"approved": False, "approver": "tom", "approvedAt": at(-5)}
    answer = explain(waits, deployment())
    assert (answer.verdict, answer.cause) == ("was refused", f"tom refused it at {at(-5)}")


def test_an_override_whose_effects_are_left_after_its_end_names_them() -> None:
    ended = override(ends_s=-5)
    ended["status"]["residue"] = [
        {"effect": "account", "object": "Pod shop/web-0", "message": "it is on node n1"}
    ]
    answer = explain(ended, deployment())
    assert answer.verdict == "has ended, and effects of it are left"
    assert answer.cause == "Pod shop/web-0: it is on node n1"


def test_the_autoscalers_acknowledgement_is_its_answer() -> None:
    acks = ({"controller": "autoscaler", "state": "Honoring"},)
    answer = explain(override(acks=acks, pauseAutoscaler=True), deployment())
    assert answer.verdict == f"is active until {at(900)} by alice, honoured by autoscaler"


# Budgets.


def budget(*, healthy: int, desired: int, expected: int) -> Obj:
    status = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": max(0, healthy - desired),
        "observedGeneration": 1,
    }
    return obj(
        "PodDisruptionBudget", "web", spec={"selector": {"matchLabels": {"app": "web"}}}, status=status
    )


def test_a_budget_with_unhealthy_pods_has_their_cause() -> None:
    stranger = failing("db-0", None, "CrashLoopBackOff")
    stranger["metadata"]["labels"] = {"app": "db"}
    answer = explain(
        budget(healthy=1, desired=2, expected=3), stranger, failing("web-0", None, "ErrImagePull", "none")
    )
    assert answer.cause == "1 pods are healthy, and 2 must be: image (ErrImagePull: none)"


def test_a_budget_that_asks_for_all_pods_is_lowered() -> None:
    answer = explain(budget(healthy=3, desired=3, expected=3))
    assert answer.change is not None
    assert '"minAvailable":2' in answer.change.command
    assert explain(budget(healthy=3, desired=2, expected=3)).as_wanted
    assert explain(budget(healthy=2, desired=2, expected=3)).as_wanted is False
