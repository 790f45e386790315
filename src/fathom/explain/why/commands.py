"""Commands that one can type for a change, with kubectl. Pure text.

A pod's spec can hardly be changed once it exists: where a workload controls the pod, its template is changed;
a pod of its own is replaced.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from fathom.api.binding.requests import NODE_REVISION, RESERVATION
from fathom.explain.why.case import ContainerFacts, PodCase
from fathom.kinds.scheduler_override import USED_OVERRIDES
from fathom.kinds.scheduling_policy import POLICY
from fathom.model.body import encode_json
from fathom.model.objects import Obj, key_of, lookup, metadata
from fathom.model.tenancy import ACCOUNT
from fathom.model.well_known import DECISION_ANNOTATION

# Their templates can be changed, and they replace their pods then.
ROLLED_OUT = {"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}
# Its template can be changed too, but its pods stay as they are until somebody deletes them.
TEMPLATED = {**ROLLED_OUT, "ReplicaSet": "replicaset"}
# Labels that the API server gives a Job's template.
UID_LABELS = {"batch.kubernetes.io/controller-uid", "controller-uid"}
REPLACE = "kubectl replace --force -f -"
# Annotations that the API server writes on a pod when it is bound.
PLACEMENT_MARKS = frozenset(
    {ACCOUNT, DECISION_ANNOTATION, NODE_REVISION, POLICY, RESERVATION, USED_OVERRIDES}
)
END = "-"  # In a path: after the last item of a list.

Operation = dict[str, object]
Path = Sequence[str | int]  # ('spec', 'containers', 0, 'image')


def word(named: str) -> str:
    """As one word of a command. Texts of the cluster may hold anything, also another command, or an option of
    this one: no name begins with '-', so there a person has to put in what is meant."""
    return "NAME" if named.startswith("-") else shlex.quote(named)


def kubectl(*words: str, namespace: str = "") -> str:
    return shlex.join(["kubectl", *(("-n", namespace) if namespace else ()), *words])


def merge_patch(resource: str, name: str, patch: Obj, *, namespace: str = "") -> str:
    return kubectl("patch", resource, name, "--type=merge", "-p", _json(patch), namespace=namespace)


def json_patch(resource: str, name: str, operations: Sequence[Operation], *, namespace: str = "") -> str:
    return kubectl("patch", resource, name, "--type=json", "-p", _json(list(operations)), namespace=namespace)


def strategic_patch(resource: str, name: str, patch: Obj, *, namespace: str, of: str) -> str:
    """Of a subresource, as `status`: items of lists are merged by their keys."""
    words = ("patch", resource, name, f"--subresource={of}", "--type=strategic", "-p", _json(patch))
    return kubectl(*words, namespace=namespace)


def spec_change(case: PodCase, operations: Sequence[Operation], *, in_place: bool = False) -> str:
    """A JSON patch of the pod's spec, where it takes effect. `in_place`: the API lets a pod change so."""
    namespace, name = case.key
    kind, owner = template_owner(case)
    if owner is not None:
        changed = json_patch(
            TEMPLATED[kind], key_of(owner).name, _in_template(operations), namespace=namespace
        )
        replaced = "" if kind in ROLLED_OUT else kubectl("delete", "pod", name, namespace=namespace)
        return f"{changed} && {replaced}" if replaced else changed
    job = next((owner for kind, owner in case.owners if kind == "Job"), None)
    if job is not None and not in_place:
        return job_replaced(job, _in_template(operations))
    if in_place:
        return json_patch("pod", name, operations, namespace=namespace)
    changed = json_patch("pod", name, [*_of_its_placement(case.pod), *operations], namespace=namespace)
    return f"{changed} --dry-run=client -o json | {REPLACE}"


def _of_its_placement(pod: Obj) -> Iterator[Operation]:
    """Without what the placement has written: the new pod is to be scheduled, and charged, anew. A pod
    without the mark of a decision was created with its node: there its author chose it."""
    marks = (metadata(pod).get("annotations") or {}).keys() & PLACEMENT_MARKS
    if DECISION_ANNOTATION in marks and lookup(pod, "spec", "nodeName"):
        yield {"op": "remove", "path": "/spec/nodeName"}
    for mark in sorted(marks):
        yield {"op": "remove", "path": pointer(("metadata", "annotations", mark))}


def _in_template(operations: Sequence[Operation]) -> list[Operation]:
    return [{**operation, "path": f"/spec/template{operation['path']}"} for operation in operations]


def job_replaced(job: Obj, changes: Sequence[Operation] = ()) -> str:
    """The same Job, run again: its template cannot change, and it makes a pod anew as soon as it is deleted.
    The API server gives each Job a selector of its own, by its UID, and refuses one that brings another
    Job's: then `replace --force` would delete the Job and create none."""
    own = [] if lookup(job, "spec", "manualSelector") else list(_made_by_the_server(job))
    (namespace, name), operations = key_of(job), [*own, *changes]
    if not operations:
        return f"{kubectl('get', 'job', name, '-o', 'json', namespace=namespace)} | {REPLACE}"
    return f"{json_patch('job', name, operations, namespace=namespace)} --dry-run=client -o json | {REPLACE}"


def _made_by_the_server(job: Obj) -> Iterator[Operation]:
    if lookup(job, "spec", "selector"):
        yield {"op": "remove", "path": "/spec/selector"}
    labels = lookup(job, "spec", "template", "metadata", "labels") or {}
    for label in sorted(labels.keys() & UID_LABELS):
        yield {"op": "remove", "path": pointer(("spec", "template", "metadata", "labels", label))}


def template_owner(case: PodCase) -> tuple[str, Obj | None]:
    """The workload whose template makes the pod: of a Deployment's ReplicaSet, the Deployment."""
    made_by = [(kind, owner) for kind, owner in case.owners if kind in TEMPLATED]
    return made_by[-1] if made_by else ("", None)


# Operations of a JSON patch.


def set_field(case: PodCase, path: Path, value: object) -> Operation:
    """Sets a field of the pod's spec where `spec_change` writes it. A template may lack what the API server
    has added to the pod, such as tolerations or requests: then the missing parents are added too."""
    at: object = _written(case)
    for depth, step in enumerate(path[:-1]):
        child = _child(at, step)
        if child is None:
            return _add(path[: depth + 1], _nested(path[depth + 1 :], value))
        at = child
    return {"op": "add" if _child(at, path[-1]) is None else "replace", "path": pointer(path), "value": value}


def set_container_field(case: PodCase, container: ContainerFacts, path: Path, value: object) -> Operation:
    """The same for a field of a container, which is found by name: a template may have fewer containers."""
    listed = lookup(_written(case), "spec", container.field) or ()
    names = [each.get("name") for each in listed]
    index = names.index(container.name) if container.name in names else container.index
    return set_field(case, ("spec", container.field, index, *path), value)


def pointer(path: Path) -> str:
    """A JSON pointer: RFC 6901."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _written(case: PodCase) -> Obj:
    """The object whose `spec` makes the pod: the template of its workload, or the pod itself."""
    _, owner = template_owner(case)
    owner = owner or next((job for kind, job in case.owners if kind == "Job"), None)
    template: Obj | None = lookup(owner, "spec", "template") if owner is not None else None
    return template or case.pod


def _child(value: object, step: str | int) -> object:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list | tuple) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _add(path: Path, value: object) -> Operation:
    return {"op": "add", "path": pointer(path), "value": value}


def _nested(path: Path, value: object) -> object:
    for step in reversed(path):
        value = [value] if step == END else {step: value}
    return value


def owner_text(case: PodCase) -> str:
    """Who may change the pod's spec: 'the owner of deployment/web'."""
    kind, owner = template_owner(case)
    if owner is None and case.owners:
        kind, owner = case.owners[-1]
    return "the pod's owner" if owner is None else f"the owner of {kind.lower()}/{key_of(owner).name}"


def _json(value: object) -> str:
    return encode_json(value).decode()


def applied(obj: Obj) -> str:
    """The object created from the command line."""
    return f"echo {shlex.quote(_json(obj))} | kubectl apply -f -"
