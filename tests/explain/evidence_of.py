"""Evidence for tests of explanations: objects by resource, records and audit entries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fathom.explain.evidence import Evidence, HeldObjects, ObjectRef, ProcessState, Recorded
from fathom.explain.why.answer import Explanation
from fathom.explain.why_of.kinds import explain_object
from fathom.explain.why_of.lookups import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    OVERRIDES,
    PODS,
    POLICIES,
    PROGRESS,
    RESOURCE_QUOTAS,
    ROLLOUTS,
    SERVICES,
    TENANT_QUOTAS,
)
from fathom.model.audit import AuditEntry
from fathom.model.decision import Decision, KeptDecision, Outcome, Subject
from fathom.model.objects import Obj
from fathom.model.resource_names import (
    AUTOSCALERS,
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SLICES,
)

NOW_S = 1_790_000_000
RESOURCES = {
    "Deployment": DEPLOYMENTS, "ReplicaSet": REPLICA_SETS, "Pod": PODS, "Job": JOBS, "Node": NODES,
    "Service": SERVICES, "EndpointSlice": SLICES, "HorizontalPodAutoscaler": AUTOSCALERS,
    "PodDisruptionBudget": BUDGETS, "PolicyRollout": ROLLOUTS, "SchedulerOverride": OVERRIDES,
    "SchedulingPolicy": POLICIES, "WorkloadProgress": PROGRESS, "ResourceQuota": RESOURCE_QUOTAS,
    "TenantQuota": TENANT_QUOTAS, "Lease": LEASES, "Namespace": NAMESPACES, "Event": EVENTS,
    "ConfigMap": CONFIG_MAPS, "CronJob": "cronjobs.batch", "PriorityClass": PRIORITY_CLASSES,
}  # fmt: skip


def at(seconds: float) -> str:
    """A timestamp, so many seconds from now."""
    return datetime.fromtimestamp(NOW_S + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def obj(kind: str, name: str, *, namespace: str = "shop", owner: Obj | None = None, **fields: Any) -> Obj:
    meta: Obj = {
        "name": name,
        "uid": f"uid-{kind}-{name}",
        "generation": 1,
        "resourceVersion": "7",
        "creationTimestamp": at(-600),
        **({"namespace": namespace} if namespace else {}),
        **fields.pop("metadata", {}),
    }
    if owner is not None:
        reference = {
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        meta["ownerReferences"] = [{**reference, "controller": True}]
    return {"kind": kind, "metadata": meta, **fields}


def condition(type_: str, status: str, reason: str = "", message: str = "", **more: Any) -> Obj:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at(-300),
        **more,
    }


TEMPLATE: Obj = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
}


def deployment(replicas: int = 3, *conditions: Obj, name: str = "web", **spec: Any) -> Obj:
    status = {"observedGeneration": 1, "conditions": list(conditions)}
    whole = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": TEMPLATE, **spec}
    return obj("Deployment", name, spec=whole, status=status)


def replica_set(
    owner: Obj | None, replicas: int = 3, *conditions: Obj, name: str = "web-1", **spec: Any
) -> Obj:
    whole = {"replicas": replicas, "template": TEMPLATE, **spec}
    status = {"observedGeneration": 1, "conditions": list(conditions)}
    return obj("ReplicaSet", name, owner=owner, spec=whole, status=status)


def pod(
    name: str,
    owner: Obj | None = None,
    *conditions: Obj,
    ready: bool = True,
    node: str = "n1",
    phase: str = "Running",
    labels: dict[str, str] | None = None,
    **more: Any,
) -> Obj:
    spec = {"containers": [{"name": "main", "image": "web:1"}], **more.pop("spec", {})}
    listed = [condition("Ready", "True" if ready else "False"), *conditions]
    begun = {"startTime": at(-500)} if node else {}
    return obj(
        "Pod",
        name,
        owner=owner,
        metadata={"labels": {"app": "web"} if labels is None else labels, **more.pop("metadata", {})},
        spec={**spec, "nodeName": node} if node else spec,
        status={"phase": phase if node else "Pending", "conditions": listed, **begun, **more},
    )


def waiting(name: str, owner: Obj | None, reason: str, message: str) -> Obj:
    """A pod without a node."""
    return pod(
        name,
        owner,
        condition("PodScheduled", "False", "Unschedulable", message),
        condition("SchedulingRetrying", "True", reason, message),
        ready=False,
        node="",
    )


def failing(name: str, owner: Obj | None, reason: str, message: str = "", **more: Any) -> Obj:
    """A pod on a node whose container waits for this reason."""
    state = {"waiting": {"reason": reason, "message": message}}
    statuses = [{"name": "main", "state": state, "restartCount": 0, **more}]
    return pod(name, owner, ready=False, phase="Pending", containerStatuses=statuses)


def node(name: str = "n1", *conditions: Obj, taints: tuple[Obj, ...] = (), **spec: Any) -> Obj:
    ready = () if any(each["type"] == "Ready" for each in conditions) else (condition("Ready", "True"),)
    whole = {**spec, **({"taints": list(taints)} if taints else {})}
    return obj("Node", name, namespace="", spec=whole, status={"conditions": [*ready, *conditions]})


def evidence(subject: Obj, *objects: Obj, **more: Any) -> Evidence:
    held: dict[str, list[Obj]] = {}
    for each in (subject, *objects):
        held.setdefault(RESOURCES[each["kind"]], []).append(each)
    meta = subject["metadata"]
    return Evidence(
        subject=ObjectRef(RESOURCES[subject["kind"]], meta.get("namespace", ""), meta["name"], meta["uid"]),
        objects=HeldObjects(held, revision=99),
        now_ns=NOW_S * 10**9,
        **more,
    )


def explain(subject: Obj, *objects: Obj, **more: Any) -> Explanation:
    return explain_object(evidence(subject, *objects, **more))


def recorded(
    controller: str, about: Obj, verdict: str = "bind", *, at_s: float = -10, **more: Any
) -> Recorded:
    meta = about["metadata"]
    subject = Subject(RESOURCES[about["kind"]], meta.get("namespace", ""), meta["name"], meta["uid"])
    decision = Decision(
        id=more.pop("id", f"d-{controller}"),
        time_ns=int((NOW_S + at_s) * 10**9),
        controller=controller,
        subject=subject,
        verdict=verdict,
        **more,
    )
    outcome = Outcome(id=decision.id, time_ns=decision.time_ns, result="committed", revision=50)
    return Recorded("deciders", KeptDecision(decision, (outcome,)))


def write(user: str, about: Obj, *changed: str, at_s: float = -60, **more: Any) -> AuditEntry:
    meta = about["metadata"]
    fields: dict[str, Any] = {"verb": "patch", "code": 200, "revision": 40, **more}
    return AuditEntry(
        id=f"a-{user}",
        time=at(at_s),
        user=user,
        resource=RESOURCES[about["kind"]],
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta["uid"],
        changed=changed,
        **fields,
    )


def lease(name: str, *, renewed_s: float, holder: str = "deciders") -> Obj:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": at(-renewed_s)}
    return obj("Lease", name, namespace="fathom-system", spec=spec)


def scheduler_state(**caches: Any) -> ProcessState:
    return ProcessState(process="scheduler", parts=("scheduler",), leads=True, caches=caches)
