"""Objects as people write them, for client tests."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Obj:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(name, labels)}
    return {**made, "data": data} if data else made


def pod(name: str, *, node: str = "", labels: dict[str, str] | None = None, image: str = "nginx:1.27") -> Obj:
    spec: Obj = {"containers": [{"name": "main", "image": image}], "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _meta(name, labels), "spec": spec}


def deployment(name: str, *, replicas: int = 2, image: str = "nginx:1.27") -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta(name, labels), "spec": spec}


def replica_set(name: str, *, replicas: int = 1, owner: Obj | None = None) -> Obj:
    spec = {**deployment(name, replicas=replicas)["spec"]}
    made = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": _meta(name, {"app": name}),
        "spec": spec,
    }
    return owned(made, owner) if owner else made


def service(name: str, *, port: int = 80) -> Obj:
    spec = {"selector": {"app": name}, "ports": [{"port": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def node(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def owned(obj: Obj, owner: Obj) -> Obj:
    """With an owner reference as controllers write it."""
    reference = {field: owner[field] for field in ("apiVersion", "kind")}
    reference |= {field: owner["metadata"][field] for field in ("name", "uid")}
    reference |= {"controller": True, "blockOwnerDeletion": True}
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


def _meta(name: str, labels: dict[str, str] | None) -> Obj:
    return {"name": name, **({"labels": labels} if labels else {})}
