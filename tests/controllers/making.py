"""Objects for tests of plans: as short as what they are about, with the metadata that a server would give."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fathom.control.ownership import controller_ref
from fathom.model.objects import Obj

NOW_S = 1_700_000_000
UIDS = "uid-"


def at(seconds: float) -> str:
    """A timestamp, so many seconds from NOW."""
    return datetime.fromtimestamp(NOW_S + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


NOW = at(0)


def meta(name: str, *, age_s: float = 100, **more: Any) -> Obj:
    return {
        "name": name,
        "namespace": "default",
        "uid": f"{UIDS}{name}",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": at(-age_s),
        **more,
    }


TEMPLATE: Obj = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
}


def replica_set(name: str = "web", replicas: int = 3, *, status: Obj | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": meta(name),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": TEMPLATE,
            **spec,
        },
        "status": status or {},
    }


def pod(
    name: str,
    owner: Obj | None = None,
    *,
    age_s: float = 100,
    ready: bool = True,
    ready_for_s: float = 50,
    phase: str = "Running",
    node: str = "node-1",
    going: bool = False,
    labels: dict[str, str] | None = None,
    **status: Any,
) -> Obj:
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": at(-ready_for_s),
    }
    made = meta(name, age_s=age_s, labels={"app": "web"} if labels is None else labels)
    if owner is not None:
        made["ownerReferences"] = [controller_ref(owner)]
    if going:
        made["deletionTimestamp"] = at(30)
    spec: Obj = {"containers": [{"name": "main", "image": "web:1"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": made,
        "spec": {**spec, "nodeName": node} if node else spec,
        "status": {"phase": phase, "conditions": [condition], **status},
    }
