"""`fathom set`: fields of the containers of a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from fathom.cli.objects.changes import DryRun, ObjectChanges, Output, is_same, split_words
from fathom.cli.objects.resources import NamedObject
from fathom.cli.places import Kubeconfig, Namespace
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.model.media_types import JSON_PATCH

Obj = dict[str, Any]
Operations = list[Obj]

ALL = "*"

HELP = """Set images and resources of containers.

fathom set image deployment/web main=web:2
fathom set resources deployment/web --requests=cpu=250m
"""

app = App(name="set", help=HELP)


@app.command
def resources(
    *what: Annotated[str, Parameter(help="Workloads: deployment/web")],
    containers: Annotated[
        str, Parameter(name=("--containers", "-c"), help="The container's name. Default: all of them.")
    ] = ALL,
    requests: Annotated[str, Parameter(help="What to reserve: cpu=100m,memory=64Mi")] = "",
    limits: Annotated[str, Parameter(help="What must not be exceeded: cpu=1,memory=128Mi")] = "",
    dry_run: DryRun = "none",
    output: Output = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Set what containers request, and their limits. The rollout replaces the pods.

    Prints a line for each workload that was changed.

    fathom set resources deployment/web --requests=cpu=250m
    fathom set resources deployment/web -c main --limits=memory=128Mi
    """
    wanted = {
        field: _amounts(typed, f"--{field}")
        for field, typed in (("requests", requests), ("limits", limits))
        if typed
    }
    if not wanted:
        raise Problem("give --requests, --limits or both: --requests=cpu=100m,memory=64Mi")
    changes = ObjectChanges(kubeconfig, namespace=namespace, dry_run=dry_run, output=output)
    for target in changes.named(what):
        _change(
            changes,
            target,
            "resource requirements updated",
            lambda spec: _resources(spec, containers, wanted),
        )
    return 0


@app.command
def image(
    *what: Annotated[str, Parameter(help="Workloads, then CONTAINER=IMAGE: deployment/web main=web:2")],
    dry_run: DryRun = "none",
    output: Output = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Set images of containers. The rollout replaces the pods. CONTAINER may be *, for all.

    Prints a line for each workload that was changed.

    fathom set image deployment/web main=web:2
    fathom set image deployment/web '*=web:2'
    """
    names, values = split_words(what)
    images = dict(value.partition("=")[::2] for value in values)
    if not images or "" in images or "" in images.values():
        raise Problem("say which image a container gets: CONTAINER=IMAGE")
    changes = ObjectChanges(kubeconfig, namespace=namespace, dry_run=dry_run, output=output)
    for target in changes.named(names):
        _change(changes, target, "image updated", lambda spec: _images(spec, images))
    return 0


def _amounts(typed: str, flag: str) -> dict[str, str]:
    """Raises Problem."""
    amounts = dict(part.partition("=")[::2] for part in typed.split(","))
    if not all(amounts) or not all(amounts.values()):
        raise Problem(f"{flag} reads RESOURCE=AMOUNT,…, for example cpu=100m,memory=64Mi, not {typed!r}")
    return amounts


def _change(
    changes: ObjectChanges, target: NamedObject, word: str, operations_for: Callable[[Obj], Operations]
) -> None:
    before = changes.read(target)
    where, spec = _pod_spec(before)
    if spec is None:
        raise Problem(f"{target.label} has no containers", exit_code=ANSWER_IS_NO)
    operations = [{**each, "path": f"{where}{each['path']}"} for each in operations_for(spec)]
    # The containers are found by their place: nobody may have moved them meanwhile.
    revision = {"op": "test", "path": "/metadata/resourceVersion", "value": _revision(before)}
    after = changes.patch(target, [revision, *operations], media=JSON_PATCH) if operations else before
    if not is_same(before, after):
        changes.report(target, after, word)
        changes.say_overrides(target, after)


def _revision(obj: Obj) -> Any:
    return obj["metadata"]["resourceVersion"]


def _pod_spec(obj: Obj) -> tuple[str, Obj | None]:
    """Where the containers of a workload stand: in the pod template, or in the pod itself."""
    spec = obj.get("spec") or {}
    template = (spec.get("template") or {}).get("spec")
    if template is not None:
        return "/spec/template/spec", template
    return "/spec", spec if "containers" in spec else None


def _chosen(spec: Obj, wanted: str) -> Iterator[tuple[str, Obj]]:
    """The path and the fields of each container with the name, init containers too. Raises Problem."""
    chosen = [
        (f"/{field}/{index}", container)
        for field in ("initContainers", "containers")
        for index, container in enumerate(spec.get(field) or ())
        if container.get("name") == wanted or (wanted == ALL and field == "containers")
    ]
    if not chosen:
        names = ", ".join(str(each.get("name")) for each in spec.get("containers") or ())
        raise Problem(f"there is no container {wanted!r}: the containers are {names}", exit_code=ANSWER_IS_NO)
    yield from chosen


def _resources(spec: Obj, containers: str, wanted: Mapping[str, Mapping[str, str]]) -> Operations:
    operations = []
    for path, container in _chosen(spec, containers):
        there = container.get("resources") or {}
        after = {**there, **{field: {**(there.get(field) or {}), **wanted[field]} for field in wanted}}
        if after != there:
            operations.append({"op": "add", "path": f"{path}/resources", "value": after})
    return operations


def _images(spec: Obj, images: Mapping[str, str]) -> Operations:
    return [
        {"op": "add", "path": f"{path}/image", "value": image}
        for name, image in images.items()
        for path, container in _chosen(spec, name)
        if container.get("image") != image
    ]
