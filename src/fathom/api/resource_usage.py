"""metrics.k8s.io: resource usage of nodes and pods, requested from their agents on demand. Nothing is stored.

Agents that do not answer are left out, as with metrics-server: no figure is better than a wrong one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from fathom.api import response_forms
from fathom.api.agent_connections import address_of
from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.kube.definitions.kind import Kind
from fathom.model.body import encode_json
from fathom.model.column import Column
from fathom.model.errors import ApiError, bad_request, method_not_allowed, not_found, unavailable
from fathom.model.objects import Key, Obj, labels_of, lookup, metadata
from fathom.model.selectors import parse_field_selector, parse_label_selector
from fathom.model.times import SECOND_NS, timestamp

GROUP, VERSION = "metrics.k8s.io", "v1beta1"

_USAGE: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
_COMMON: dict[str, Any] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
    "timestamp": {"type": "string", "format": "date-time"},
    "window": {"type": "string"},
}


def _kind(kind: str, plural: str, *, namespaced: bool, **properties: Any) -> Kind:
    return Kind(
        group=GROUP,
        version=VERSION,
        kind=kind,
        plural=plural,
        singular="",
        namespaced=namespaced,
        list_kind=f"{kind}List",
        verbs=("get", "list"),
        virtual=True,
        columns=(
            Column("CPU", "string", ".usage.cpu"),
            Column("Memory", "string", ".usage.memory"),
            Column("Window", "string", ".window"),
        )
        if not namespaced
        else (Column("Window", "string", ".window"),),
        schema={"type": "object", "properties": {**_COMMON, **properties}},
    )


NODE_METRICS = _kind("NodeMetrics", "nodes", namespaced=False, usage=_USAGE)
POD_METRICS = _kind(
    "PodMetrics",
    "pods",
    namespaced=True,
    containers={
        "type": "array",
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "usage": _USAGE}},
    },
)
USAGE_KINDS = (NODE_METRICS, POD_METRICS)


async def serve_usage(core: Core, call: Call) -> Response:
    """GET one object, or list."""
    verb, target = call.target.verb, call.target
    if verb not in {"get", "list"}:
        raise method_not_allowed("GET")
    objects = await (_of_nodes(core, call) if call.kind.plural == "nodes" else _of_pods(core, call))
    now_ns = core.outside.clock.now_ns()
    if verb == "get":
        match = next((obj for obj in objects if metadata(obj)["name"] == target.name), None)
        if match is None:
            raise not_found(call.kind.resource, target.name)
        return response_forms.unstored(call.kind, match, call.form, now_ns=now_ns)
    chosen = _selected(call, objects)
    if call.form.shape:
        listed = response_forms.shaped(call.kind, chosen, call.form, now_ns=now_ns, list_meta={})
    else:
        head = {"kind": call.kind.list_kind, "apiVersion": call.kind.api_version, "metadata": {}}
        listed = {**head, "items": chosen}
    return Response(status=200, body=encode_json(listed))


def _selected(call: Call, objects: Iterable[Obj]) -> list[Obj]:
    try:
        labels = parse_label_selector(call.request.param("labelSelector"))
        fields = parse_field_selector(call.request.param("fieldSelector"))
    except ValueError as error:
        raise bad_request(str(error)) from None
    return [
        obj
        for obj in objects
        if labels.matches(labels_of(obj)) and fields.matches(lambda path, obj=obj: _field(obj, path))  # type: ignore[misc]  # the object of this round
    ]


def _field(obj: Obj, path: str) -> str:
    if path not in {"metadata.name", "metadata.namespace"}:
        raise bad_request(f"{path} is not a known field of metrics")
    return str(metadata(obj).get(path.partition(".")[2]) or "")


# Requests to the agents.


async def _usage_by_node(core: Core, nodes: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Node -> its agent's answer, for the agents that answered."""
    answers: dict[str, dict[str, Any]] = {}

    async def ask(name: str) -> None:
        seen = core.cache.get("nodes", Key("", name))
        if seen is None:
            return
        try:
            answers[name] = await core.agents.usage(address_of(seen.obj))
        except ApiError:
            return

    await asyncio.gather(*(ask(name) for name in nodes))
    return {name: answers[name] for name in sorted(answers)}


async def _of_nodes(core: Core, call: Call) -> list[Obj]:
    nodes = {str(metadata(seen.obj)["name"]): seen.obj for seen in core.cache.list("nodes")}
    wanted = [call.target.name] if call.target.name else sorted(nodes)
    if call.target.name and call.target.name not in nodes:
        raise not_found(call.kind.resource, call.target.name)
    answers = await _usage_by_node(core, wanted)
    if wanted and not answers:
        raise unavailable("no agent has reported the usage of its node yet")
    return [node_metrics(nodes[name], answer) for name, answer in answers.items()]


async def _of_pods(core: Core, call: Call) -> list[Obj]:
    pods = [seen.obj for seen in core.cache.list("pods", call.target.namespace or None)]
    if call.target.name:
        pods = [pod for pod in pods if metadata(pod)["name"] == call.target.name]
    return await _usage_of_pods(core, pods)


async def usage_of_all_pods(core: Core) -> list[Obj]:
    """PodMetrics of all pods whose agents answer."""
    return await _usage_of_pods(core, [seen.obj for seen in core.cache.list("pods")])


async def _usage_of_pods(core: Core, pods: list[Obj]) -> list[Obj]:
    nodes = {str(name) for pod in pods if (name := lookup(pod, "spec", "nodeName"))}
    answers = await _usage_by_node(core, sorted(nodes))
    objects = []
    for pod in pods:
        answer = answers.get(str(lookup(pod, "spec", "nodeName")))
        used = next(
            (
                pod_usage
                for pod_usage in (answer or {}).get("pods") or ()
                if pod_usage["uid"] == metadata(pod)["uid"]
            ),
            None,
        )
        if answer is not None and used is not None:
            objects.append(pod_metrics(pod, used, answer))
    return objects


# The objects of the answers.


def node_metrics(node: Obj, answer: dict[str, Any]) -> Obj:
    return {**_head(NODE_METRICS, node, answer), "usage": _usage(answer)}


def pod_metrics(pod: Obj, used: dict[str, Any], answer: dict[str, Any]) -> Obj:
    containers = [{"name": container["name"], "usage": _usage(container)} for container in used["containers"]]
    return {**_head(POD_METRICS, pod, answer), "containers": containers}


def _head(kind: Kind, obj: Obj, answer: dict[str, Any]) -> Obj:
    meta = metadata(obj)
    at = timestamp(int(answer["at_ns"]))
    named = {name: meta[name] for name in ("name", "namespace", "labels") if meta.get(name)}
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {**named, "creationTimestamp": at},
        "timestamp": at,
        "window": f"{int(answer['window_ns']) / SECOND_NS:.3f}s",
    }


def _usage(used: dict[str, Any]) -> Obj:
    return {"cpu": f"{int(used['cpu_nano'])}n", "memory": f"{int(used['memory_bytes']) // 1024}Ki"}
