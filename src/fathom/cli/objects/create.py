"""`fathom create`: objects from files, and the small ones that are quicker typed than written."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from fathom.cli.objects.apply import placed
from fathom.cli.objects.changes import DryRun, ObjectChanges, Output
from fathom.cli.objects.manifests import Manifest, read_manifests
from fathom.cli.objects.options import Files, Recursive
from fathom.cli.objects.resources import NamedObject
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace
from fathom.cli.problem import Problem

Obj = dict[str, Any]

Literals = Annotated[
    tuple[str, ...], Parameter(name="--from-literal", negative=(), help="A key with its value: KEY=VALUE")
]
FromFiles = Annotated[
    tuple[str, ...],
    Parameter(
        name="--from-file", negative=(), help="A file as value: FILE, or KEY=FILE; all of a directory."
    ),
]

app = App(name="create", help="Create objects from files; or a ConfigMap, a Secret, a namespace from flags.")


@app.default
def from_files(
    *,
    filename: Files = (),
    recursive: Recursive = False,
    dry_run: DryRun = "none",
    output: Output = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Create the objects of files. Exits with 1 if one exists already: `fathom apply` changes those.

    Prints a line for each object: created.

    fathom create -f job.yaml
    fathom create configmap settings --from-literal=colour=blue
    """
    return _create(
        read_manifests(filename, recursive=recursive),
        ObjectChanges(kubeconfig, namespace=namespace, dry_run=dry_run, output=output),
        chosen_namespace(namespace, kubeconfig),
        is_given=bool(namespace),
    )


@app.command
def configmap(
    name: Annotated[str, Parameter(help="Name of the ConfigMap.")],
    *,
    from_literal: Literals = (),
    from_file: FromFiles = (),
    dry_run: DryRun = "none",
    output: Output = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Create a ConfigMap from values and files. Prints that it was created.

    fathom create configmap settings --from-literal=colour=blue --from-literal=size=3
    fathom create configmap settings --from-file=settings.ini
    """
    obj: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    for key, value in _values(from_literal, from_file).items():
        try:
            obj.setdefault("data", {})[key] = value.decode()
        except UnicodeDecodeError:
            obj.setdefault("binaryData", {})[key] = base64.b64encode(value).decode()
    changes = ObjectChanges(kubeconfig, namespace=namespace, dry_run=dry_run, output=output)
    return _create([Manifest(obj, "the flags")], changes, chosen_namespace(namespace, kubeconfig))


@app.command
def secret(
    kind: Annotated[str, Parameter(help="generic: values and files of any sort.")],
    name: Annotated[str, Parameter(help="Name of the Secret.")],
    *,
    from_literal: Literals = (),
    from_file: FromFiles = (),
    type_of_secret: Annotated[str, Parameter(name="--type", help="The Secret's type.")] = "Opaque",
    dry_run: DryRun = "none",
    output: Output = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Create a Secret from values and files. Prints that it was created.

    fathom create secret generic login --from-literal=user=ann
    fathom create secret generic login --from-file=password.txt
    """
    if kind != "generic":
        raise Problem(
            f"only `generic` Secrets can be created here, not {kind!r}: use `fathom create -f FILE`"
        )
    values = _values(from_literal, from_file)
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": type_of_secret}
    changes = ObjectChanges(kubeconfig, namespace=namespace, dry_run=dry_run, output=output)
    whole = {**obj, **({"data": data} if data else {})}
    return _create([Manifest(whole, "the flags")], changes, chosen_namespace(namespace, kubeconfig))


@app.command(name="namespace")
def create_namespace(
    name: Annotated[str, Parameter(help="Name of the namespace.")],
    *,
    dry_run: DryRun = "none",
    output: Output = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Create a namespace. Prints that it was created.

    fathom create namespace shop
    fathom create namespace shop --dry-run=server
    """
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    changes = ObjectChanges(kubeconfig, namespace="", dry_run=dry_run, output=output)
    return _create([Manifest(obj, "the flags")], changes, "")


def _create(
    manifests: list[Manifest], changes: ObjectChanges, namespace: str, *, is_given: bool = False
) -> int:
    for manifest in manifests:
        resource = changes.resources.of_object(manifest.obj)
        obj = placed(manifest, resource, namespace, is_given=is_given)
        at = str(obj["metadata"].get("namespace") or "")
        target = NamedObject(resource, at, obj["metadata"]["name"])
        changes.report(target, changes.create(target, obj), "created")
    return 0


def _values(literals: tuple[str, ...], files: tuple[str, ...]) -> dict[str, bytes]:
    """Raises Problem."""
    values: dict[str, bytes] = {}
    for key, value in [*map(_literal, literals), *(pair for file in files for pair in _files(file))]:
        if key in values:
            raise Problem(f"the key {key!r} is given twice")
        values[key] = value
    return values


def _literal(typed: str) -> tuple[str, bytes]:
    key, equals, value = typed.partition("=")
    if not key or not equals:
        raise Problem(f"--from-literal reads KEY=VALUE, not {typed!r}")
    return key, value.encode()


def _files(typed: str) -> list[tuple[str, bytes]]:
    key, equals, name = typed.partition("=")
    path = Path(name if equals else typed)
    try:
        if path.is_dir() and not equals:
            return [(each.name, each.read_bytes()) for each in sorted(path.iterdir()) if each.is_file()]
        return [(key if equals else path.name, path.read_bytes())]
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}") from error
