"""`fathom replace`: objects as files have them, whole."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.answers import done
from fathom.cli.objects.apply import placed
from fathom.cli.objects.delete import delete_and_wait
from fathom.cli.objects.manifests import read_manifests
from fathom.cli.objects.options import Files, Recursive
from fathom.cli.objects.resources import NamedObject, Resources
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.terminal import say

Obj = dict[str, Any]

WRITTEN_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def replace(
    *,
    filename: Files = (),
    recursive: Recursive = False,
    force: Annotated[
        bool, Parameter(negative=(), help="Delete each object first, and create it again.")
    ] = False,
    grace_period: Annotated[
        int, Parameter(help="With --force: seconds that a pod gets to end; -1: as the pod says.")
    ] = -1,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Make objects exactly as files have them: fields that a file lacks go. Needed for what cannot be changed
    while the object exists, such as most of a pod: then with --force.

    Prints a line for each object: replaced.

    fathom replace -f web.yaml
    fathom replace --force -f pod.json
    """
    server = ServerConnection(found_kubeconfig(kubeconfig))
    resources, at = Resources(server), chosen_namespace(namespace, kubeconfig)
    for manifest in read_manifests(filename, recursive=recursive):
        resource = resources.of_object(manifest.obj)
        obj = placed(manifest, resource, at, is_given=bool(namespace))
        target = NamedObject(resource, str(obj["metadata"].get("namespace") or ""), obj["metadata"]["name"])
        if force:
            delete_and_wait(server, target, _delete_options(grace_period))
            path, method, obj = resource.path(target.namespace), "POST", created_anew(obj)
        else:
            path, method = target.path(), "PUT"
        done(*server.request(method, path, obj), path)
        say(*(f"Warning: {warning}" for warning in server.warnings), err=True)
        say(f"{resource.label}/{target.name} replaced")
    return 0


def _delete_options(grace_s: int) -> Obj:
    options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    return options if grace_s < 0 else {**options, "gracePeriodSeconds": grace_s}


def created_anew(obj: Obj) -> Obj:
    """The object without what the server wrote."""
    meta = {name: value for name, value in obj["metadata"].items() if name not in WRITTEN_BY_SERVER}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": meta}
