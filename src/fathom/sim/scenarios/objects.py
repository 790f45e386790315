"""Objects for scenarios, as short as the server allows."""

from __future__ import annotations

from fathom.model.objects import Obj


def node(name: str, *, pods: int = 110) -> Obj:
    room = {"cpu": "4", "memory": "32Gi", "pods": str(pods)}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room},
    }


def pod_spec(*, node: str = "node-1") -> Obj:
    """Without a node the pod waits to be bound."""
    return {
        **({"nodeName": node} if node else {}),
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "main", "image": "example/app"}],
    }


def template(app: str, *, tag: str = "1", node: str = "node-1", **labels: str) -> Obj:
    spec = pod_spec(node=node)
    spec["containers"][0]["image"] = f"example/{app}:{tag}"
    return {"metadata": {"labels": {"app": app, **labels}}, "spec": spec}


def replica_set(name: str, replicas: int) -> Obj:
    return {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name),
        },
    }
