"""`fathom delete`: delete objects, and wait until they are gone."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from cyclopts import Parameter

from fathom.cli.api_server import Refused, ServerConnection
from fathom.cli.object_reference import duration_s
from fathom.cli.objects.answers import done
from fathom.cli.objects.apply import placed
from fathom.cli.objects.manifests import Manifest, read_manifests
from fathom.cli.objects.options import AllNamespaces, Files, Recursive, Selector, named_objects
from fathom.cli.objects.resources import NamedObject, Resource, Resources
from fathom.cli.output import output_parameter
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say

Obj = dict[str, Any]

POLL_S_FIRST, POLL_S_MAX = 0.05, 1.0
PROPAGATION = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


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
    output: Annotated[str, output_parameter("name", help="name: of each object, KIND/NAME alone.")] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Delete objects, and wait until they are gone. Exits with 1 if one does not exist.

    Prints a line for each object.

    fathom delete pod/web-1
    fathom delete -f web.yaml -o name
    """
    server = ServerConnection(found_kubeconfig(kubeconfig))
    resources = Resources(server)
    default = "" if all_namespaces else chosen_namespace(namespace, kubeconfig)
    if filename:
        manifests = read_manifests(filename, recursive=recursive)
        targets = [_declared(each, resources, default, is_given=bool(namespace)) for each in manifests]
    else:
        targets = [
            target
            for named in named_objects(what, resources)
            for target in (
                [NamedObject(named.resource, default, name) for name in named.names]
                or _listed(server, named.resource, default, selector, all_objects=all_objects)
            )
        ]
    options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": PROPAGATION[cascade]}
    grace_s = _grace_s(grace_period, now=now, force=force)
    if grace_s >= 0:
        options["gracePeriodSeconds"] = grace_s
    word = "force deleted" if force and grace_s == 0 else "deleted"
    is_dry = dry_run == "server"
    outcome = "" if output == "name" else f"{word}{' (server dry run)' if is_dry else ''}"
    deleted, missing = _delete(server, targets, options, outcome, is_dry=is_dry)
    if not targets:
        say("No resources found.", err=bool(output))
    if wait and dry_run == "none":
        _wait(server, deleted, duration_s(timeout, "--timeout") if timeout else None)
    if missing and not ignore_not_found:
        raise Problem("; ".join(missing), exit_code=ANSWER_IS_NO)
    return 0


def _grace_s(wanted: int, *, now: bool, force: bool) -> int:
    """As kubectl: 0 would leave the program running without a record of it, so only --force means it."""
    if now:
        return 1
    if force and wanted < 0:
        return 0
    return 1 if wanted == 0 and not force else wanted


def _declared(manifest: Manifest, resources: Resources, namespace: str, *, is_given: bool) -> NamedObject:
    resource = resources.of_object(manifest.obj)
    meta = placed(manifest, resource, namespace, is_given=is_given)["metadata"]
    return NamedObject(resource, str(meta.get("namespace") or ""), meta["name"])


def delete_and_wait(server: ServerConnection, target: NamedObject, options: Obj) -> None:
    """Also if it does not exist. Raises Problem."""
    deleted, _ = _delete(server, [target], options, "deleted", is_dry=False)
    _wait(server, deleted, None)


def _delete(
    server: ServerConnection, targets: list[NamedObject], options: Obj, word: str, *, is_dry: bool
) -> tuple[list[tuple[NamedObject, str]], list[str]]:
    """What was deleted, with its UID, and which objects do not exist. `word`: '' to print names alone."""
    query = "?dryRun=All" if is_dry else ""
    deleted, missing = [], []
    for target in targets:
        try:
            answer = done(*server.request("DELETE", target.path() + query, options), target.path())
        except Refused as refused:
            if refused.code != 404:
                raise
            missing.append(str(refused))
            continue
        say(f'{target.resource.label} "{target.name}" {word}' if word else target.label)
        deleted.append((target, _uid(answer)))
    return deleted, missing


def _listed(
    server: ServerConnection, resource: Resource, namespace: str, selector: str, *, all_objects: bool
) -> list[NamedObject]:
    """Raises Problem."""
    if not selector and not all_objects:
        raise Problem(f"name the objects of the kind {resource.full_name}, or give -l LABELS or --all")
    path = f"{resource.path(namespace)}?{urlencode({'labelSelector': selector} if selector else {})}"
    items = done(*server.request("GET", path), path).get("items") or ()
    metas = [item["metadata"] for item in items]
    return [NamedObject(resource, str(meta.get("namespace") or ""), meta["name"]) for meta in metas]


def _uid(answer: Obj) -> str:
    """Of the object, or of the Status that stands for it."""
    return str((answer.get("metadata") or {}).get("uid") or (answer.get("details") or {}).get("uid") or "")


def _wait(server: ServerConnection, deleted: list[tuple[NamedObject, str]], seconds: float | None) -> None:
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


def _is_there(server: ServerConnection, target: NamedObject, uid: str) -> bool:
    status, answer = server.request("GET", target.path())
    return status != 404 and (not uid or _uid(answer) == uid)
