"""Workloads, Services, autoscalers and namespaces in troubles that were first met on a running cluster."""

from __future__ import annotations

from typing import Any

from tests.explain.evidence_of import at, condition, deployment, explain, obj, pod, replica_set

from fathom.model.objects import Obj


def job(*conditions: Obj, **spec: Any) -> Obj:
    whole = {"completions": 1, "parallelism": 1, **spec}
    return obj("Job", "load", spec=whole, status={"conditions": list(conditions)})


def test_a_failed_job_is_replaced_without_the_selector_of_its_uid() -> None:
    """`replace --force` deletes first: a Job that the API server then refuses would be lost."""
    labels = {"app": "load", "controller-uid": "7", "batch.kubernetes.io/controller-uid": "7"}
    own = {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "7"}}}
    template = {"metadata": {"labels": labels}}
    late = condition("Failed", "True", "DeadlineExceeded", "Job was active longer than specified deadline")
    answer = explain(job(late, activeDeadlineSeconds=30, template=template, **own))
    assert answer.change is not None
    assert answer.change.what == (
        "raise activeDeadlineSeconds above 30, for example to 60, and replace the Job"
    )
    assert answer.change.command == (
        "kubectl -n shop patch job load --type=json -p '["
        '{"op":"remove","path":"/spec/selector"},'
        '{"op":"remove","path":"/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid"},'
        '{"op":"remove","path":"/spec/template/metadata/labels/controller-uid"},'
        '{"op":"replace","path":"/spec/activeDeadlineSeconds","value":60}'
        "]' --dry-run=client -o json | kubectl replace --force -f -"
    )


def test_a_job_with_a_selector_of_its_author_keeps_it() -> None:
    limit = condition("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    answer = explain(job(limit, manualSelector=True, selector={"matchLabels": {"app": "load"}}))
    assert answer.change is not None
    assert answer.change.command == "kubectl -n shop get job load -o json | kubectl replace --force -f -"


def test_a_job_without_parallelism_is_held() -> None:
    answer = explain(job(parallelism=0))
    assert (answer.verdict, answer.kind) == ("is held with 0 of 1 completions", "intended")
    assert answer.cause.startswith("spec.parallelism is 0, so it runs no pods")
    assert answer.change is not None
    assert answer.change.command == (
        """kubectl patch job load -n shop --type=merge -p '{"spec":{"parallelism":1}}'"""
    )


# Services.


def service(port: Obj | None = None, **selector: str) -> Obj:
    return obj("Service", "front", spec={"selector": selector, "ports": [port or {"port": 80}]})


def test_letters_that_are_swapped_in_a_selector_are_corrected() -> None:
    """The decoy: a pod whose label begins with the same letter."""
    answer = explain(
        service(app="wbe"), pod("web-0", labels={"app": "web"}), pod("w-0", labels={"app": "wxyz"})
    )
    assert answer.cause == "no pod has the labels app=wbe; the nearest is pod web-0, with app=web"
    assert answer.change is not None
    assert '{"spec":{"selector":{"app":"web"}}}' in answer.change.command


def test_a_deployment_without_replicas_is_why_its_service_has_no_pods() -> None:
    """The decoy: another Deployment of a similar label, which has pods."""
    template = {"metadata": {"labels": {"app": "web"}}}
    scaled = deployment(0, template=template)
    answer = explain(service(app="web"), scaled, pod("web-b-0", labels={"app": "web-b"}))
    assert (
        answer.cause == "no pod has the labels app=web: Deployment web, whose pods have them, has 0 replicas"
    )
    assert answer.change is not None
    assert answer.change.command == "kubectl scale deployment/web -n shop --replicas=1"
    refused = explain(service(app="web"), deployment(2, template=template))
    assert refused.change is not None
    assert refused.change.command == "fathom why deployment/web -n shop"


def test_a_target_port_that_no_container_declares_is_corrected() -> None:
    unreached = condition("fathom.dev/Serving", "False", "ConnectFailed", "the gateway cannot connect")
    ports = [{"name": "main", "ports": [{"containerPort": 8080}]}]
    held = pod("web-0", labels={"app": "web"})
    held = {
        **held,
        "spec": {**held["spec"], "containers": ports},
        "status": {**held["status"], "conditions": [*held["status"]["conditions"], unreached]},
    }
    answer = explain(service({"port": 80, "targetPort": 9999}, app="web"), held, slice_of("front"))
    assert answer.verdict == "is not served"
    assert answer.change is not None
    assert answer.change.what == "set targetPort to a port that the pods have, such as 8080"


def slice_of(name: str) -> Obj:
    return obj(
        "EndpointSlice", f"{name}-1", metadata={"labels": {"kubernetes.io/service-name": name}},
        ports=[{"port": 9999}],
        endpoints=[{"addresses": ["10.0.0.7"], "conditions": {"ready": True}}],
    )  # fmt: skip


# Autoscalers.


def test_a_metric_that_is_never_read_is_replaced() -> None:
    metrics = [{"type": "Pods", "pods": {"metric": {"name": "rps"}}}]
    target = {"kind": "Deployment", "name": "web"}
    inactive = condition(
        "ScalingActive", "False", "FailedGetPodsMetric", "metrics of type Pods are not supported"
    )
    able = condition("AbleToScale", "True", "ReadyForNewScale")
    autoscaler = obj(
        "HorizontalPodAutoscaler", "web", spec={"scaleTargetRef": target, "metrics": metrics},
        status={"observedGeneration": 1, "conditions": [able, inactive]},
    )  # fmt: skip
    answer = explain(autoscaler, deployment())
    assert answer.change is not None
    assert answer.change.what == "scale by a metric of type Resource"


# Refused by something else than a quota.


def test_a_priority_class_that_does_not_exist_is_created() -> None:
    message = 'pods "web-1-0" is forbidden: no PriorityClass with name gold was found'
    failure = condition("ReplicaFailure", "True", "FailedCreate", message)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"priorityClassName": "gold"}}
    maker = obj(
        "ReplicaSet", "web", spec={"replicas": 1, "template": template},
        status={"observedGeneration": 1, "conditions": [failure]},
    )  # fmt: skip
    answer = explain(maker)
    assert answer.change is not None
    assert answer.change.command == "kubectl create priorityclass gold --value=VALUE"
    known = explain(maker, obj("PriorityClass", "gold", namespace=""))
    assert known.change is not None
    assert known.change.what == "change the pod template so that the API server accepts it"


# Namespaces.


def deleted(kind: str, name: str, namespace: str, *finalizers: str) -> Obj:
    whole = obj(kind, name, namespace=namespace)
    meta = {**whole["metadata"], "deletionTimestamp": at(-60), "finalizers": list(finalizers)}
    return {**whole, "metadata": meta}


def test_a_namespace_that_is_not_gone_names_the_finalizer_that_keeps_it() -> None:
    """The decoys: an object without finalizers, and one of another namespace."""
    left = condition(
        "NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    )  # fmt: skip
    namespace = {**deleted("Namespace", "shop", ""), "status": {"conditions": [left]}}
    held = deleted("ConfigMap", "settings", "shop", "example.com/hold")
    others = (deleted("ConfigMap", "a", "shop"), deleted("ConfigMap", "b", "other", "example.com/b"))
    answer = explain(namespace, held, *others)
    assert answer.verdict == f"is being deleted since {at(-60)}"
    assert answer.cause == left["message"]
    assert answer.change is not None
    assert answer.change.what == (
        "let the controller of example.com/hold finish, or remove the finalizer of configmaps/settings"
    )
    hidden = explain(namespace, held, readable=frozenset({"other"}))
    assert hidden.change is None
    assert explain(obj("Namespace", "shop", namespace="")).as_wanted


# Replicas.


def test_pods_between_two_crashes_are_not_called_unready() -> None:
    """It said that one pod of one ready replica was not ready."""
    web = deployment(1)
    made = replica_set(web, 1)
    ended = {"exitCode": 3, "reason": "Error", "startedAt": at(-12), "finishedAt": at(-10)}
    status = {
        "name": "main", "ready": True, "restartCount": 4, "state": {"running": {"startedAt": at(-2)}},
        "lastState": {"terminated": ended},
    }  # fmt: skip
    answer = explain(web, made, pod("web-1-0", made, containerStatuses=[status]))
    assert answer.verdict == "is not ready with 1 of 1 replicas ready"
    assert answer.cause.startswith("1 pod is ready for the moment: crash")


# Kinds that are only stored.


def test_a_kind_without_a_controller_says_so_unless_another_control_plane_runs_it() -> None:
    nightly = obj("CronJob", "nightly", spec={"schedule": "0 3 * * *"})
    answer = explain(nightly)
    assert (answer.as_wanted, answer.summary) == (
        False,
        "CronJob shop/nightly is not run: fathom has no controller for CronJobs, so nobody creates its Jobs."
        " Change: create its Jobs by hand (the owner of cronjob/nightly)",
    )
    assert answer.change is not None
    assert answer.change.command == "kubectl create job nightly-now --from=cronjob/nightly -n shop"
    spec = {"holderIdentity": "vm", "leaseDurationSeconds": 15, "renewTime": at(-2)}
    other = obj("Lease", "kube-controller-manager", namespace="kube-system", spec=spec)
    assert explain(nightly, other).as_wanted
    stale = {**other, "spec": {**spec, "renewTime": at(-60)}}
    assert not explain(nightly, stale).as_wanted
