"""A cluster as `fathom top` has seen it, in pieces."""

from __future__ import annotations

from typing import Any

from fathom.cli.ask.top.seen import ClusterSeen, LeaseSeen, node_loads, pod_seen
from fathom.model.objects import Key, Obj, key_of
from fathom.model.times import SECOND_NS, moment_ns, timestamp

NOW_NS = moment_ns("2026-11-17T12:00:00Z") or 0
HOSTILE = "[red]x[/] \x1b[2J\x1b]0;owned\x07 \u202eabc\r\nnext"
SHOWN = r"[red]x[/] \x1b[2J\x1b]0;owned\x07 \u202eabc\r\nnext"


def ago(seconds: float) -> str:
    return timestamp(NOW_NS - round(seconds * SECOND_NS))


def node(name: str, *, zone: str = "a", ready: bool = True, **spec: Any) -> Obj:
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": conditions},
    }


def pod(name: str, *, on: str = "", owner_uid: str = "", cpu: str = "1", phase: str = "Running") -> Obj:
    owners = (
        [{"kind": "ReplicaSet", "name": "web-1", "uid": owner_uid, "controller": True}] if owner_uid else []
    )
    requests = {"cpu": cpu, "memory": "1Gi"}
    status = {"name": "c", "ready": phase == "Running", "restartCount": 2, "state": {"running": {}}}
    return {
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"uid-{name}", "ownerReferences": owners,
            "creationTimestamp": ago(90),
        },
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": phase, "containerStatuses": [status] if phase == "Running" else []},
    }  # fmt: skip


def progress(name: str, *, kind: str = "Deployment", **status: Any) -> Obj:
    return {
        "metadata": {"namespace": "shop", "name": f"{kind.lower()}-{name}"},
        "spec": {"workload": {"apiVersion": "apps/v1", "kind": kind, "name": name}},
        "status": status,
    }


def counts(generation: int, desired: int, *reached: int) -> Obj:
    stages = ("admitted", "queued", "scheduled", "bound", "starting", "ready", "serving")
    return {"generation": generation, "desired": desired, **dict(zip(stages, reached, strict=True))}


def lease(name: str, holder: str, *, renewed_s: float = 1, epoch: str = "3") -> Obj:
    return {
        "metadata": {
            "namespace": "fathom-system",
            "name": name,
            "annotations": {"fathom.dev/epoch": epoch},
        },
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": ago(renewed_s)},
    }


def explanation(summary: str = "Deployment shop/web is not ready", **more: Any) -> Obj:
    subject = {"resource": "deployments.apps", "namespace": "shop", "name": "web"}
    return {"subject": subject, "summary": summary, "asWanted": False, **more}


def seen(*, pods: tuple[Obj, ...] = (), leases: tuple[LeaseSeen, ...] = (), **more: Any) -> ClusterSeen:
    """Objects by the field that has them: `nodes=(node("a"),)`."""
    for name in ("nodes", "overrides", "signals", "progress"):
        if name in more:
            more[name] = {key_of(obj): obj for obj in more[name]}
    known = {key_of(obj): pod_seen(obj) for obj in pods}
    return ClusterSeen(
        **{"namespace": "", "now_ns": NOW_NS, **more},
        pods=known,
        loads=node_loads(known),
        leases={Key(*key_of(each.obj)): each for each in leases},
    )
