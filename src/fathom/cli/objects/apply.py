"""`fathom apply`: make objects as files declare them; what others wrote into other fields stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from fathom.cli.api_server import Refused, ServerConnection
from fathom.cli.documents import print_documents
from fathom.cli.objects.answers import done
from fathom.cli.objects.manifests import Manifest, read_manifests
from fathom.cli.objects.options import Files, Recursive
from fathom.cli.objects.resources import Resource, Resources
from fathom.cli.objects.schemas import PatchSchemas
from fathom.cli.output import output_parameter
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.kube.patch.three_way import three_way_patch
from fathom.model.media_types import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from fathom.model.well_known import LAST_APPLIED
from fathom.terminal import say

Obj = dict[str, Any]
DryRun = Literal["none", "server", "client"]

ATTEMPTS = 5
DRY_RUN_NOTES = {"none": "", "server": " (server dry run)", "client": " (dry run)"}


def apply(
    *,
    filename: Files = (),
    namespace: Namespace = "",
    recursive: Recursive = False,
    dry_run: Annotated[
        DryRun, Parameter(help="server: check everything, and change nothing. client: compare only.")
    ] = "none",
    output: Annotated[str, output_parameter("json", "yaml", "name", help="Print the objects.")] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Make objects as files declare them: create what is missing, change what differs. Says for each object
    whether it was created, configured or is unchanged. Exits with 1 if one was refused.

    fathom apply -f web.yaml
    fathom apply -f deploy/ --dry-run=server
    """
    manifests = read_manifests(filename, recursive=recursive)
    server = ServerConnection(found_kubeconfig(kubeconfig))
    applier = Applier(server, Resources(server), dry_run=dry_run)
    default = chosen_namespace(namespace, kubeconfig)
    refused, objs = [], []
    for manifest in manifests:
        try:
            obj, action = applier.apply(manifest, default, is_given=bool(namespace))
        except Problem as problem:
            if not isinstance(problem, Refused):
                raise
            refused.append(f"{manifest.source}: {problem}")
            continue
        finally:
            say(*(f"Warning: {warning}" for warning in applier.take_warnings()), err=True)
        objs.append(obj)
        if not output:
            say(f"{applier.label(manifest)} {action}{DRY_RUN_NOTES[dry_run]}")
    if output and objs:
        print_documents(objs, output, as_list=len(objs) > 1)
    if refused:
        raise Problem("; ".join(refused), exit_code=ANSWER_IS_NO)
    return 0


class Applier:
    """Applies objects at one server."""

    def __init__(self, server: ServerConnection, resources: Resources, *, dry_run: DryRun = "none") -> None:
        self._server, self._resources, self._dry_run = server, resources, dry_run
        self._schemas = PatchSchemas(server)
        self._warnings: list[str] = []

    def take_warnings(self) -> list[str]:
        taken, self._warnings = self._warnings, []
        return taken

    def label(self, manifest: Manifest) -> str:
        return f"{self._resources.of_object(manifest.obj).label}/{manifest.obj['metadata']['name']}"

    def apply(self, manifest: Manifest, namespace: str, *, is_given: bool) -> tuple[Obj, str]:
        """The object, and what was done: 'created', 'configured' or 'unchanged'. Raises Problem."""
        resource = self._resources.of_object(manifest.obj)
        declared = placed(manifest, resource, namespace, is_given=is_given)
        name, at = declared["metadata"]["name"], declared["metadata"].get("namespace", "")
        for attempt in range(ATTEMPTS):
            try:
                current = self._read(resource.path(at, name))
                if current is None:
                    return self._create(resource.path(at), declared), "created"
                return self._change(resource, resource.path(at, name), declared, current)
            except Refused as refused:
                if refused.code != 409 or attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("not reached")

    def _read(self, path: str) -> Obj | None:
        try:
            return done(*self._server.request("GET", path), path)
        except Refused as refused:
            if refused.code == 404:
                return None
            raise

    def _create(self, path: str, declared: Obj) -> Obj:
        whole = with_last_applied(declared)
        return whole if self._dry_run == "client" else self._write("POST", path, whole, "application/json")

    def _change(self, resource: Resource, path: str, declared: Obj, current: Obj) -> tuple[Obj, str]:
        meta = current.get("metadata") or {}
        text = (meta.get("annotations") or {}).get(LAST_APPLIED)
        if text is None:
            self._warnings.append(
                f"{resource.plural}/{meta.get('name')} was not made by apply: fields that the file does not"
                " have stay as they are, this time and later"
            )
        before, whole = last_applied(text), with_last_applied(declared)
        merges = resource.group.endswith(".k8s.io") or "." not in resource.group  # Else a custom kind.
        schema = self._schemas.of(resource) if merges else None
        patch = three_way_patch(before, whole, current, schema)
        if not patch:
            return current, "unchanged"
        if meta.get("deletionTimestamp"):
            self._warnings.append(f"{resource.plural}/{meta.get('name')} is being deleted")
        if self._dry_run == "client":
            return current, "configured"
        try:
            changed = self._write(
                "PATCH", path, patch, MERGE_PATCH if schema is None else STRATEGIC_MERGE_PATCH
            )
        except Refused as refused:
            if refused.code != 415:
                raise
            patch = three_way_patch(before, whole, current, None)
            changed = self._write("PATCH", path, patch, MERGE_PATCH)
        same = (changed.get("metadata") or {}).get("resourceVersion") == meta.get("resourceVersion")
        return changed, "unchanged" if same and self._dry_run == "none" else "configured"

    def _write(self, method: str, path: str, body: Obj, media: str) -> Obj:
        query = {"fieldValidation": "Strict", "fieldManager": "fathom-apply"}
        if self._dry_run == "server":
            query["dryRun"] = "All"
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        answer = done(*self._server.request(method, f"{path}?{asked}", body, media=media), path)
        self._warnings += self._server.warnings
        return answer


def placed(manifest: Manifest, resource: Resource, namespace: str, *, is_given: bool) -> Obj:
    """The object with its namespace. `is_given`: the user named it. Raises Problem."""
    meta = manifest.obj["metadata"]
    if not resource.namespaced:
        return {**manifest.obj, "metadata": {name: meta[name] for name in meta if name != "namespace"}}
    own = meta.get("namespace") or namespace
    if is_given and own != namespace:
        raise Problem(f"{manifest.source} is for the namespace {own}, not for {namespace}: leave out -n")
    return {**manifest.obj, "metadata": {**meta, "namespace": own}}


def with_last_applied(declared: Obj) -> Obj:
    """The object with what it declares as an annotation."""
    meta = declared["metadata"]
    annotations = {
        name: value for name, value in (meta.get("annotations") or {}).items() if name != LAST_APPLIED
    }
    bare = {**declared, "metadata": {**meta, "annotations": annotations}}
    return {
        **declared,
        "metadata": {**meta, "annotations": {**annotations, LAST_APPLIED: as_go_writes(bare)}},
    }


def last_applied(text: str | None) -> Obj:
    try:
        before = json.loads(text or "{}")
    except ValueError:
        return {}
    return before if isinstance(before, dict) else {}


_ESCAPED_BY_GO: Sequence[tuple[str, str]] = tuple(
    (char, f"\\u{ord(char):04x}") for char in ("<", ">", "&", "\u2028", "\u2029")
)


def as_go_writes(value: Obj) -> str:
    """The same text that kubectl writes: else each of the two would find the other's work changed."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char, escape in _ESCAPED_BY_GO:
        text = text.replace(char, escape)
    return f"{text}\n"
