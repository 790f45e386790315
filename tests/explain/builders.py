"""Small clusters as evidence, for questions about pods."""

from __future__ import annotations

from typing import Any

from fathom.explain.evidence import Evidence, HeldObjects, ObjectRef, Recorded
from fathom.explain.why.answer import Explanation
from fathom.explain.why.pod import explain
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, KeptDecision, Outcome, SeenVersions, Subject
from fathom.model.times import moment_ns, timestamp

Obj = dict[str, Any]

NOW = "2026-01-01T12:00:00Z"
NOW_NS = moment_ns(NOW) or 0
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BIG = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def at(seconds: float) -> str:
    """So many seconds before now."""
    return timestamp(NOW_NS - round(seconds * 1e9))


def node(name: str, cpu: str = "4", *, labels: Obj | None = None, conditions: Any = (), **spec: Any) -> Obj:
    meta = {"name": name, "labels": {HOST: name, **(labels or {})}, "resourceVersion": "5"}
    room = {**BIG, "cpu": cpu}
    return {"metadata": meta, "spec": spec, "status": {"allocatable": room, "conditions": list(conditions)}}


def container(name: str = "web", cpu: str = "1", **fields: Any) -> Obj:
    return {"name": name, "image": "web:1", "resources": {"requests": {"cpu": cpu}}, **fields}


def pod(
    name: str = "web",
    *containers: Obj,
    cpu: str = "1",
    on: str = "",
    status: Obj | None = None,
    meta: Obj | None = None,
    **spec: Any,
) -> Obj:
    labels = {"app": name}
    own = {
        "name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": labels, "resourceVersion": "9",
        "creationTimestamp": at(600), **(meta or {}),
    }  # fmt: skip
    bound = {"nodeName": on} if on else {}
    return {
        "kind": "Pod",
        "metadata": own,
        "spec": {"containers": list(containers) or [container(cpu=cpu)], **bound, **spec},
        "status": status or {},
    }


def condition(
    type_: str, status: str = "True", reason: str = "", message: str = "", ago_s: float = 60
) -> Obj:
    return {
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": at(ago_s)
    }  # fmt: skip


READY = (condition("Starting", reason="Started"), condition("ContainersReady"), condition("Ready"))
NOT_READY = condition("Ready", "False", "ContainersNotReady")


def running(*statuses: Obj, conditions: Any = (NOT_READY,), **more: Any) -> Obj:
    return {
        "phase": "Running", "startTime": at(300), "podIP": "10.0.0.7", "containerStatuses": list(statuses),
        "conditions": list(conditions), **more,
    }  # fmt: skip


def reported(
    name: str = "web", *, ready: bool = False, restarts: int = 0, last: Obj | None = None, **state: Obj
) -> Obj:
    return {
        "name": name, "ready": ready, "started": ready, "restartCount": restarts, "state": state,
        "lastState": {"terminated": last} if last else {},
    }  # fmt: skip


def ended(code: int = 1, reason: str = "Error", message: str = "", **more: Any) -> Obj:
    times = {"startedAt": at(31), "finishedAt": at(30)}
    return {"exitCode": code, "reason": reason, "message": message, **times, **more}


BACK_OFF = {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container=web"}
RUNS = {"startedAt": at(200)}


def lease(name: str = "scheduler", *, ago_s: float = 2.0, holder: str = "deciders") -> Obj:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": at(ago_s)}
    return {"metadata": {"namespace": "fathom-system", "name": name}, "spec": spec}


def own(
    kind: str, name: str, *, namespace: str = "", revision: int = 4, status: Obj | None = None, **spec: Any
) -> Obj:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(revision)}
    if namespace:
        meta["namespace"] = namespace
    return {
        "apiVersion": "fathom.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec,
        "status": status or {},
    }  # fmt: skip


def event(reason: str, message: str, about: str = "web", container: str = "web", ago_s: float = 20) -> Obj:
    involved = {
        "name": about,
        "namespace": "shop",
        "uid": f"uid-{about}",
        "fieldPath": f"spec.containers{{{container}}}",
    }
    name = f"{about}.{reason}.{round(ago_s)}".lower()
    return {
        "metadata": {"namespace": "shop", "name": name}, "involvedObject": involved, "reason": reason,
        "message": message, "lastTimestamp": at(ago_s),
    }  # fmt: skip


def decided(
    verdict: str,
    *,
    about: str = "web",
    nodes: dict[str, str] | None = None,
    outcomes: tuple[Outcome, ...] = (),
    ago_s: float = 5,
    seen: dict[str, SeenVersions] | None = None,
    looked_at: int = 2,
    **more: Any,
) -> Recorded:
    decision = Decision(
        id=f"d-{verdict}",
        time_ns=NOW_NS - round(ago_s * 1e9),
        controller="scheduler",
        subject=Subject("pods", "shop", about, f"uid-{about}"),
        verdict=verdict,
        nodes=looked_at,
        cause=WakeCause("event", "added", "pods", "shop", about, 3),
        seen=seen if seen is not None else {"Pod": SeenVersions(50), "Node": SeenVersions(50)},
        **more,
    )
    return Recorded("deciders", KeptDecision(decision, outcomes), nodes)


NAMESPACES = [{"metadata": {"name": name}} for name in ("shop", "other", "fathom-system")]


def evidence(subject: str = "web", *, records: tuple[Recorded, ...] = (), **objects: Any) -> Evidence:
    """`objects`: lists by resource, with underscores for dots. A scheduler leads, unless leases are given."""
    named = {
        resource.replace("_", "."): listed for resource, listed in objects.items() if resource not in FIELDS
    }
    fields = {field: value for field, value in objects.items() if field in FIELDS}
    held: dict[str, Any] = {"leases.coordination.k8s.io": [lease()], "namespaces": NAMESPACES, **named}
    return Evidence(
        subject=ObjectRef("pods", "shop", subject),
        objects=HeldObjects(held, revision=100),
        decisions=records,
        now_ns=NOW_NS,
        **fields,
    )


FIELDS = frozenset({"attached", "audit", "copied", "processes", "gaps", "may_read_nodes", "readable"})


def why(case: Evidence, **options: Any) -> Explanation:
    return explain(case.subject, case, **options)
