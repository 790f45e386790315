"""`fathom scale`: set the number of replicas."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter, validators

from fathom.cli.objects.changes import DryRun, ObjectChanges, Output
from fathom.cli.objects.resources import NamedObject
from fathom.cli.places import Kubeconfig, Namespace
from fathom.cli.problem import ANSWER_IS_NO, Problem

Obj = dict[str, Any]


def scale(
    *what: Annotated[str, Parameter(name="KIND/NAME", help="Objects with replicas: deployment/web")],
    replicas: Annotated[int, Parameter(help="How many.", validator=validators.Number(gte=0))],
    current_replicas: Annotated[
        int | None, Parameter(help="Only if this is the number now: else nothing is changed.")
    ] = None,
    dry_run: DryRun = "none",
    output: Output = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Set the number of replicas of a Deployment, a ReplicaSet or another kind that has a scale.

    Prints that it was scaled; with -o, the scaled object.

    fathom scale deployment/web --replicas=5
    fathom scale deployment/web --replicas=3 --current-replicas=5
    """
    changes = ObjectChanges(kubeconfig, namespace=namespace, dry_run=dry_run, output=output)
    for target in changes.named(what):
        patch: Obj = {"spec": {"replicas": replicas}}
        if current_replicas is not None:
            patch["metadata"] = {"resourceVersion": _revision_with(changes, target, current_replicas)}
        changes.patch(target, patch, subresource="scale")
        # The answer is a Scale: the object itself is what was named.
        obj = changes.read(target) if output else {}
        changes.report(target, _with_replicas(obj, replicas), "scaled")
        changes.say_overrides(target, obj)
    return 0


def _revision_with(changes: ObjectChanges, target: NamedObject, expected: int) -> str:
    """The revision at which it has so many replicas. Raises Problem."""
    there = changes.read(target, "scale")
    now = (there.get("spec") or {}).get("replicas", 0)
    if now != expected:
        raise Problem(
            f"{target.label} has {now} replicas, not {expected}: nothing was changed",
            exit_code=ANSWER_IS_NO,
        )
    return str(there["metadata"]["resourceVersion"])


def _with_replicas(obj: Obj, replicas: int) -> Obj:
    """As it is after the change, also where a dry run changed nothing."""
    spec = obj.get("spec") or {}
    return {**obj, "spec": {**spec, "replicas": replicas}} if "replicas" in spec else obj
