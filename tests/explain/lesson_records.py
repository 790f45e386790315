"""The records of lesson 019's example, as journals, audit log, tape and API would have them."""

from __future__ import annotations

from typing import Any

from fathom.explain.evidence import CacheObservation, Evidence, HeldObjects, ObjectRef, Recorded
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.audit import AuditEntry
from fathom.model.cause import WakeCause
from fathom.model.decision import (
    Considered,
    Decision,
    KeptDecision,
    Outcome,
    Rejection,
    SeenVersions,
    Subject,
)
from fathom.model.times import SECOND_NS, micro_timestamp, moment_ns

Obj = dict[str, Any]

SPACE, POD, SET, WORKLOAD, SCALER = "risk", "risk-api-7f2-042", "risk-api-7f2", "risk-api", "risk-api-scaler"
BEGIN_NS = moment_ns("2026-11-16T12:00:00Z") or 0
DEPLOYMENTS, REPLICA_SETS = "deployments.apps", "replicasets.apps"
AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
SPREAD = "PodTopologySpread: node(s) didn't match pod topology spread constraints"
QUOTA = "TenantQuota: quota/risk-zone-c"
NODES = {
    "node-a1": SPREAD, "node-a2": SPREAD, "node-b1": SPREAD, "node-c11": QUOTA, "node-c12": QUOTA,
}  # fmt: skip
RULES = {SPREAD: "PodTopologySpread", QUOTA: "TenantQuota"}


def at(seconds: float) -> int:
    return BEGIN_NS + round(seconds * SECOND_NS)


def uid(name: str) -> str:
    return f"uid-of-{name}"


def audit(  # noqa: PLR0917 - records as tables
    seconds: float, user: str, verb: str, resource: str, name: str, revision: int, **more: Any
) -> AuditEntry:
    return AuditEntry(
        id=f"audit-{revision}",
        time=micro_timestamp(at(seconds)),
        user=user,
        verb=verb,
        resource=resource,
        namespace="" if resource in {TENANT_QUOTAS, "nodes"} else SPACE,
        name=name,
        uid=uid(name),
        code=200,
        revision=revision,
        **more,
    )


def decided(  # noqa: PLR0917
    seconds: float, id_: str, controller: str, resource: str, name: str, verdict: str, **more: Any
) -> Decision:
    return Decision(
        id=id_,
        time_ns=at(seconds),
        controller=controller,
        subject=Subject(resource, SPACE, name, uid(name), 42 if resource == DEPLOYMENTS else 1),
        verdict=verdict,
        **more,
    )


def outcome(  # noqa: PLR0917
    seconds: float, id_: str, revision: int, resource: str, name: str, message: str, verb: str = ""
) -> Outcome:
    return Outcome(
        id=id_,
        time_ns=at(seconds),
        result="committed",
        revision=revision,
        object=Subject(resource, SPACE, name, uid(name)),
        message=message,
        verb=verb,
    )


def changed(resource: str, name: str, revision: int, event: str = "changed") -> WakeCause:
    namespace = "" if resource == TENANT_QUOTAS else SPACE
    gone = event == "deleted"
    return WakeCause("event", "", resource, namespace, name, revision, event=event, gone=gone)


AUDIT = (
    audit(
        0, "alice", "patch", DEPLOYMENTS, WORKLOAD, 918800,
        changed=("metadata.generation", "spec.replicas"),
    ),
    audit(
        1, "system:fathom:controllers", "create", "pods", POD, 918805, changed=("*",), decision="set-1"
    ),
    audit(
        6.1, "system:fathom:controllers", "patch", DEPLOYMENTS, WORKLOAD, 918900,
        changed=("metadata.generation", "spec.replicas"), decision="scale-1",
    ),
    audit(7, "quota-admin", "patch", TENANT_QUOTAS, SPACE, 918946, changed=("spec.limits[0].resources.cpu",)),
    audit(
        10.1, "system:fathom:scheduler", "create", "pods", POD, 918950, subresource="binding",
        changed=("spec.nodeName", "status.conditions"), decision="place-2",
    ),
)  # fmt: skip

DECISIONS = (
    Recorded(
        "controllers",
        KeptDecision(
            decided(
                0.9, "set-1", "replicasets", REPLICA_SETS, SET, "create",
                cause=changed(DEPLOYMENTS, WORKLOAD, 918800), message="7 of 8 pods",
            ),
            (outcome(1, "set-1", 918805, "pods", POD, f"create Pod {SPACE}/{POD}", "create"),),
        ),
    ),
    Recorded(
        "scheduler",
        KeptDecision(
            decided(
                4, "place-1", "scheduler", "pods", POD, "unschedulable",
                cause=changed("pods", POD, 918805, ""),
                queued_ms=3000.0,
                place=(2, 5),
                nodes=5,
                filters={"PodTopologySpread": 3, "TenantQuota": 2},
                rejected=(
                    Rejection("PodTopologySpread", "placement", 3, reason="placement/topology"),
                    Rejection("TenantQuota", "quota", 2, reason="quota/risk-zone-c"),
                ),
                quotas=(Considered(SPACE, 918790, True, TENANT_QUOTAS, uid=uid(SPACE)),),
                seen={
                    "Node": SeenVersions(918812), "Pod": SeenVersions(918811, applied=918812),
                    "TenantQuota": SeenVersions(918812),
                },
                message="0/5 nodes are available: insufficient eligible capacity",
            )
        ),
        NODES,
        RULES,
    ),
    Recorded(
        "controllers",
        KeptDecision(
            decided(
                6, "scale-1", "autoscalers", AUTOSCALERS, SCALER, "patch",
                cause=WakeCause("timer", "the next sync"),
                message="low ready replicas: 7 of 8 are ready; desired capacity goes from 8 to 9",
            ),
            (outcome(6.1, "scale-1", 918900, DEPLOYMENTS, WORKLOAD, f"patch Deployment {SPACE}/{WORKLOAD}"),),
        ),
    ),
    Recorded(
        "scheduler",
        KeptDecision(
            decided(
                10, "place-2", "scheduler", "pods", POD, "bind",
                attempt=2,
                cause=changed(TENANT_QUOTAS, SPACE, 918946, "QuotaChanged"),
                nodes=5,
                node="node-c12",
                filters={"PodTopologySpread": 3},
                quotas=(Considered(SPACE, 918946, False, TENANT_QUOTAS, uid=uid(SPACE)),),
                seen={"Node": SeenVersions(918940), "TenantQuota": SeenVersions(918945, applied=918946)},
            ),
            (Outcome(id="place-2", time_ns=at(10.1), result="committed", revision=918950),),
        ),
    ),
)  # fmt: skip


def thing(name: str, *, owner: str = "", revision: int = 1, **more: Any) -> Obj:
    owners = {"ReplicaSet": SET, "Deployment": WORKLOAD}
    reference = (
        [{"apiVersion": "apps/v1", "kind": owner, "name": owners[owner], "uid": uid(owners[owner])}]
        if owner
        else []
    )
    meta = {
        "name": name, "namespace": SPACE, "uid": uid(name), "resourceVersion": str(revision),
        "creationTimestamp": "2026-11-16T11:00:00Z", "ownerReferences": reference,
    }  # fmt: skip
    return {"metadata": meta, **more}


def node(name: str) -> Obj:
    labels = {"topology.kubernetes.io/zone": f"zone-{name[5]}"}
    return {"metadata": {"name": name, "uid": uid(name), "labels": labels}}


OBJECTS = {
    "pods": [thing(POD, owner="ReplicaSet", revision=918950, spec={"nodeName": "node-c12"})],
    REPLICA_SETS: [thing(SET, owner="Deployment")],
    DEPLOYMENTS: [
        {**(deployment := thing(WORKLOAD, revision=918900, spec={"replicas": 9})),
         "metadata": {**deployment["metadata"], "generation": 43}},
    ],
    AUTOSCALERS: [
        thing(
            SCALER,
            spec={"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": WORKLOAD}},
        )
    ],
    "nodes": [node(name) for name in NODES],
    TENANT_QUOTAS: [{"metadata": {"name": SPACE, "uid": uid(SPACE), "resourceVersion": "918946"}}],
    "events": [
        {
            "metadata": {"name": f"{POD}.1", "namespace": SPACE, "uid": "uid-of-event"},
            "involvedObject": {"kind": "Pod", "name": POD, "namespace": SPACE, "uid": uid(POD)},
            "reason": "FailedScheduling",
            "message": "0/5 nodes are available: insufficient eligible capacity",
            "reportingComponent": "scheduler",
            "firstTimestamp": "2026-11-16T12:00:05Z",
            "lastTimestamp": "2026-11-16T12:00:05Z",
            "count": 1,
        }
    ],
}  # fmt: skip

TAPE = (
    CacheObservation(process="scheduler", kind="TenantQuota", revision=918812, time_ns=at(3)),
    CacheObservation(process="scheduler", kind="TenantQuota", revision=918946, time_ns=at(9)),
)


def lesson(**changes: Any) -> Evidence:
    fields: dict[str, Any] = {
        "subject": ObjectRef("pods", SPACE, POD),
        "objects": HeldObjects(OBJECTS),
        "decisions": DECISIONS,
        "audit": AUDIT,
        "observations": TAPE,
        "now_ns": at(60),
    }
    return Evidence(**{**fields, **changes})
