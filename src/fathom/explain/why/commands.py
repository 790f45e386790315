"""Commands that one can type for a change, with kubectl. Pure text.

A pod's spec can hardly be changed once it exists: where a workload controls the pod, its template is changed;
a pod of its own is replaced.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from fathom.explain.why.case import PodCase
from fathom.model.body import encode_json
from fathom.model.objects import Obj, key_of, lookup

# Their templates can be changed, and they replace their pods then.
ROLLED_OUT = {"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}

Operation = dict[str, object]


def kubectl(*words: str, namespace: str = "") -> str:
    return shlex.join(["kubectl", *(("-n", namespace) if namespace else ()), *words])


def merge_patch(resource: str, name: str, patch: Obj, *, namespace: str = "") -> str:
    return kubectl("patch", resource, name, "--type=merge", "-p", _json(patch), namespace=namespace)


def json_patch(resource: str, name: str, operations: Sequence[Operation], *, namespace: str = "") -> str:
    return kubectl("patch", resource, name, "--type=json", "-p", _json(list(operations)), namespace=namespace)


def spec_change(case: PodCase, operations: Sequence[Operation], *, in_place: bool = False) -> str:
    """A JSON patch of the pod's spec, where it takes effect. `in_place`: the API lets a pod change so."""
    namespace, name = case.key
    kind, owner = rolled_out_owner(case)
    if owner is not None:
        template = [{**operation, "path": f"/spec/template{operation['path']}"} for operation in operations]
        return json_patch(ROLLED_OUT[kind], key_of(owner).name, template, namespace=namespace)
    if in_place:
        return json_patch("pod", name, operations, namespace=namespace)
    changed = json_patch("pod", name, operations, namespace=namespace)
    return f"{changed} --dry-run=client -o json | kubectl replace --force -f -"


def spec_of(case: PodCase) -> Obj:
    """The spec that `spec_change` changes: the server adds to a pod's what its template does not have."""
    _, owner = rolled_out_owner(case)
    changed = case.pod.get("spec") if owner is None else lookup(owner, "spec", "template", "spec")
    return changed or {}


def rolled_out_owner(case: PodCase) -> tuple[str, Obj | None]:
    """The workload whose template makes the pod, where a change of it replaces the pod."""
    return next(((kind, owner) for kind, owner in case.owners if kind in ROLLED_OUT), ("", None))


def owner_text(case: PodCase) -> str:
    """Who may change the pod's spec: 'the owner of deployment/web'."""
    kind, owner = rolled_out_owner(case)
    if owner is None and case.owners:
        kind, owner = case.owners[-1]
    return "the pod's owner" if owner is None else f"the owner of {kind.lower()}/{key_of(owner).name}"


def _json(value: object) -> str:
    return encode_json(value).decode()


def applied(obj: Obj) -> str:
    """The object created from the command line."""
    return f"echo {shlex.quote(_json(obj))} | kubectl apply -f -"
