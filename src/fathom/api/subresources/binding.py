"""`pods/binding`: the one way a pod gets its node.

The commit expects the pod as it was read, so of two binds one is refused. Predicates beyond the pod's own
(room on the node, quota, fences) join here: `bindingbatches` will carry many through the same path.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.api.verbs import bodies
from fathom.api.writing import now_of, update
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, Cause, bad_request, conflict, invalid
from fathom.model.objects import Obj, is_deleting, metadata, uid_of, with_metadata

BINDING = ("", "v1", "Binding")


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class _Target(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""


class Binding(msgspec.Struct, frozen=True):
    target: _Target
    metadata: _Meta = _Meta()


async def bind(core: Core, call: Call) -> Response:
    bodies.check_options(call.request)
    binding = decode_binding(call, bodies.as_json(core, call, BINDING))

    def bound(pod: Obj) -> Obj:
        return bind_pod(pod, binding, now=now_of(core))

    await update(core, call, bound, subresource="binding")
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(status=201, body=encode_json(success))


def decode_binding(call: Call, raw: bytes) -> Binding:
    try:
        binding = msgspec.json.decode(raw, type=Binding)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"the body could not be read as a Binding: {error}") from None
    if binding.metadata.name not in {"", call.target.name}:
        raise bad_request("name in URL does not match name in Binding object")
    causes = []
    if not binding.target.name:
        causes.append(Cause("target.name", "FieldValueRequired", "Required value"))
    if binding.target.kind not in {"", "Node"}:
        why = f'Unsupported value: "{binding.target.kind}": supported values: "Node", "<empty>"'
        causes.append(Cause("target.kind", "FieldValueNotSupported", why))
    if causes:
        raise invalid(group="", kind="Binding", name=call.target.name, causes=causes)
    return binding


def bind_pod(pod: Obj, binding: Binding, *, now: str) -> Obj:
    """The pod on its node, or why it cannot be there."""
    name = str(metadata(pod)["name"])
    if binding.metadata.uid and binding.metadata.uid != uid_of(pod):
        raise _refused(name, f"the pod has UID {uid_of(pod)}, the binding names {binding.metadata.uid}")
    if is_deleting(pod):
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    spec: dict[str, Any] = pod.get("spec") or {}
    if spec.get("nodeName"):
        raise _refused(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")
    meta = metadata(pod)
    annotations = {**(meta.get("annotations") or {}), **binding.metadata.annotations}
    labels = {**(meta.get("labels") or {}), **binding.metadata.labels}
    placed = with_metadata(pod, annotations=annotations or None, labels=labels or None)
    conditions = [
        condition
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if condition.get("type") != "PodScheduled"
    ]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    return {
        **placed,
        "spec": {**spec, "nodeName": binding.target.name},
        "status": {**(pod.get("status") or {}), "conditions": [*conditions, scheduled]},
    }


def _refused(name: str, why: str) -> ApiError:
    return conflict("pods/binding", name, why)
