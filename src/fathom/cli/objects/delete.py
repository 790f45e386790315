"""`fathom delete`: delete objects, and wait until they are gone."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from cyclopts import Parameter

from fathom.cli.api_server import Refused, ServerConnection
from fathom.cli.object_reference import duration_s
from fathom.cli.objects.answers import done
from fathom.cli.objects.apply import placed
from fathom.cli.objects.manifests import read_manifests
from fathom.cli.objects.options import AllNamespaces, Files, Recursive, Selector, named_objects
from fathom.cli.objects.resources import Resource, Resources
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say

Obj = dict[str, Any]

POLL_S_FIRST, POLL_S_MAX = 0.05, 1.0
PROPAGATION = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


class _Target(msgspec.Struct, frozen=True):
    resource: Resource
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace, self.name)


def delete(
    *what: Annotated[
        str,
        Parameter(name="KIND/NAME", help="Objects, or a kind with --all or -l: pod/web-1; pods web-1 web-2"),
    ],
    filename: Files = (),
    recursive: Recursive = False,
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    all_objects: Annotated[
        bool, Parameter(name="--all", negative=(), help="All objects of the kind in the namespace.")
    ] = False,
    grace_period: Annotated[int, Parameter(help="Seconds that a pod gets to end; -1: as the pod says.")] = -1,
    now: Annotated[bool, Parameter(negative=(), help="As --grace-period=1.")] = False,
    force: Annotated[
        bool, Parameter(negative=(), help="With --grace-period=0: do not wait for the node's answer.")
    ] = False,
    cascade: Annotated[
        Literal["background", "foreground", "orphan"], Parameter(help="What becomes of what it owns.")
    ] = "background",
    ignore_not_found: Annotated[
        bool, Parameter(negative=(), help="Exit with 0 if an object does not exist.")
    ] = False,
    wait: Annotated[bool, Parameter(help="Wait until the objects are gone.")] = True,
    timeout: Annotated[str, Parameter(help="How long to wait: 90s, 5m. Default: without end.")] = "",
    dry_run: Annotated[
        Literal["none", "server"], Parameter(help="server: check everything, and change nothing.")
    ] = "none",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Delete objects, and wait until they are gone. Exits with 1 if one does not exist.

    Prints a line for each object.

    fathom delete pod/web-1
    fathom delete -f web.yaml
    """
    server = ServerConnection(found_kubeconfig(kubeconfig))
    resources = Resources(server)
    default = "" if all_namespaces else chosen_namespace(namespace, kubeconfig)
    if filename:
        targets = [
            _Target(resource, str(obj["metadata"].get("namespace") or ""), obj["metadata"]["name"])
            for manifest in read_manifests(filename, recursive=recursive)
            for resource in (resources.of_object(manifest.obj),)
            for obj in (placed(manifest, resource, default, is_given=bool(namespace)),)
        ]
    else:
        targets = [
            target
            for named in named_objects(what, resources)
            for target in (
                [_Target(named.resource, default, name) for name in named.names]
                or _listed(server, named.resource, default, selector, all_objects=all_objects)
            )
        ]
    options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": PROPAGATION[cascade]}
    grace = 1 if now else 0 if force and grace_period < 0 else grace_period
    if grace == 0 and not force:
        grace = 1  # As kubectl: 0 would leave the program running without a record of it.
    if grace >= 0:
        options["gracePeriodSeconds"] = grace
    query = "?dryRun=All" if dry_run == "server" else ""
    missing, deleted = [], []
    for target in targets:
        try:
            answer = done(*server.request("DELETE", target.path + query, options), target.path)
        except Refused as refused:
            if refused.code != 404:
                raise
            missing.append(str(refused))
            continue
        note = " (server dry run)" if dry_run == "server" else " force deleted" if force and not grace else ""
        say(f'{target.resource.label} "{target.name}"{note if "force" in note else f" deleted{note}"}')
        deleted.append((target, _uid(answer)))
    if not targets:
        say("No resources found.")
    if wait and dry_run == "none":
        _wait(server, deleted, duration_s(timeout, "--timeout") if timeout else None)
    if missing and not ignore_not_found:
        raise Problem("; ".join(missing), exit_code=ANSWER_IS_NO)
    return 0


def _listed(
    server: ServerConnection, resource: Resource, namespace: str, selector: str, *, all_objects: bool
) -> list[_Target]:
    """Raises Problem."""
    if not selector and not all_objects:
        raise Problem(f"name the objects of the kind {resource.full_name}, or give -l LABELS or --all")
    path = f"{resource.path(namespace)}?{urlencode({'labelSelector': selector} if selector else {})}"
    items = done(*server.request("GET", path), path).get("items") or ()
    metas = [item["metadata"] for item in items]
    return [_Target(resource, str(meta.get("namespace") or ""), meta["name"]) for meta in metas]


def _uid(answer: Obj) -> str:
    """Of the object, or of the Status that stands for it."""
    return str((answer.get("metadata") or {}).get("uid") or (answer.get("details") or {}).get("uid") or "")


def _wait(server: ServerConnection, deleted: list[tuple[_Target, str]], seconds: float | None) -> None:
    """Raises Problem when the time is over."""
    until = None if seconds is None else time.monotonic() + seconds
    for target, uid in deleted:
        pause_s = POLL_S_FIRST
        while _is_there(server, target, uid):
            if until is not None and time.monotonic() >= until:
                raise Problem(
                    f"{target.resource.label}/{target.name} is not gone yet: a finalizer or a node holds it;"
                    f" see `fathom get {target.resource.plural} {target.name} -o yaml`",
                    exit_code=ANSWER_IS_NO,
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, POLL_S_MAX)


def _is_there(server: ServerConnection, target: _Target, uid: str) -> bool:
    status, answer = server.request("GET", target.path)
    return status != 404 and (not uid or _uid(answer) == uid)
