"""Nodes and pods for the stories of binding."""

from __future__ import annotations

from typing import Any

from tests.api.harness import Answer, Api

from fathom.api.ledger.counting import drift, written
from fathom.model.objects import Key, Obj

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
OWN = "/apis/fathom.dev/v1alpha1"
BATCHES = f"{OWN}/bindingbatches"
ZONE = "topology.kubernetes.io/zone"


def node(name: str, *, zone: str = "", labels: dict[str, str] | None = None, **allocatable: Any) -> Obj:
    marks = {**({ZONE: zone} if zone else {}), **(labels or {})}
    room = {"cpu": "4", "memory": "32Gi", "pods": "110", **allocatable}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": marks},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(name: str, *, cpu: str = "100m", port: int = 0, node_name: str = "", **meta: Any) -> Obj:
    container: Obj = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    spec: Obj = {"containers": [container], **({"nodeName": node_name} if node_name else {})}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, **meta}, "spec": spec}


def own(kind: str, name: str, spec: Any, **meta: Any) -> Obj:
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **meta},
        "spec": spec,
    }


def item(name: str, node_name: str, **more: Any) -> Obj:
    return {"namespace": "default", "name": name, "node": node_name, **more}


async def bind(api: Api, name: str, node_name: str, *, annotations: Any = None, **headers: Any) -> Answer:
    binding = {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": name, "annotations": annotations or {}},
        "target": {"kind": "Node", "name": node_name},
    }
    return await api.post(f"{PODS}/{name}/binding", binding, **headers)


async def batch(api: Api, *items: Obj, **options: Any) -> list[Obj]:
    body = {"apiVersion": "fathom.dev/v1alpha1", "kind": "BindingBatch", "items": list(items)}
    answer = await api.post(BATCHES, body, **options)
    assert answer.status == 200, answer.obj
    results: list[Obj] = answer.obj["results"]
    return results


def check_of(answer: Answer) -> str:
    causes = (answer.obj.get("details") or {}).get("causes") or [{}]
    return str(causes[0].get("reason", ""))


def book(api: Api, resource: str, name: str) -> Obj:
    """What the ledger has; {} where there is no such account."""
    return written(api.core.cache).get((resource, Key("", name)), {})


def assert_kept(api: Api) -> None:
    """The ledger is the sum of what is there."""
    assert drift(api.core.cache) == {}
