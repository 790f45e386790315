"""What scenarios are about: objects, as short as the server lets them be."""

from __future__ import annotations

from fathom.client.api import Resource
from fathom.model.objects import Obj
from fathom.sim.standins.reserver import INTENT

PODS = Resource("", "v1", "pods")
REPLICA_SETS = Resource("apps", "v1", "replicasets")
NODES = Resource("", "v1", "nodes", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)


def node(name: str, *, pods: int = 110) -> Obj:
    room = {"cpu": "4", "memory": "32Gi", "pods": str(pods)}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room},
    }


def pod_spec(*, node: str = "node-1") -> Obj:
    """Without a node it waits for somebody to bind it."""
    return {
        **({"nodeName": node} if node else {}),
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "main", "image": "example/app"}],
    }


def template(app: str, *, tag: str = "1", node: str = "node-1", **labels: str) -> Obj:
    spec = pod_spec(node=node)
    spec["containers"][0]["image"] = f"example/{app}:{tag}"
    return {"metadata": {"labels": {"app": app, **labels}}, "spec": spec}


def replica_set(name: str, replicas: int, *, tag: str = "1", surge: int = 0) -> Obj:
    return {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": {"name": name, "annotations": {"fathom.dev/surge": str(surge)}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, tag=tag),
        },
    }


def reserving(name: str, replicas: int, *, tag: str = "1", surge: int = 0) -> Obj:
    """The same, of pods that wait for capacity before they are bound."""
    found = replica_set(name, replicas, tag=tag, surge=surge)
    found["spec"]["template"] = template(name, tag=tag, node="", **{INTENT: "serve"})
    return found
