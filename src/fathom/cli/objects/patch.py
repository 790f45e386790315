"""`fathom patch`: change fields of objects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from fathom.cli.documents import print_documents
from fathom.cli.objects.changes import ObjectChanges, Output, is_same
from fathom.cli.objects.manifests import content_of
from fathom.cli.objects.resources import NamedObject
from fathom.cli.objects.schemas import PatchSchemas
from fathom.cli.places import Kubeconfig, Namespace
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.model.body import encode_json
from fathom.model.errors import ApiError
from fathom.model.media_types import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

MEDIA = {"strategic": STRATEGIC_MERGE_PATCH, "merge": MERGE_PATCH, "json": JSON_PATCH}
Subresource = Annotated[str, Parameter(help="Patch a part that has a path of its own: status, scale.")]


def patch(
    *what: Annotated[str, Parameter(help="Objects: deployment/web; pods web-1 web-2")],
    patch: Annotated[str, Parameter(name=("--patch", "-p"), help="The patch, as JSON or YAML.")] = "",
    patch_file: Annotated[Path | None, Parameter(help="A file with the patch, instead of -p.")] = None,
    type_of_patch: Annotated[
        Literal["strategic", "merge", "json"],
        Parameter(name="--type", help="Lists are merged by their keys, replaced, or changed by operations."),
    ] = "strategic",
    subresource: Subresource = "",
    dry_run: Annotated[
        Literal["none", "server", "client"],
        Parameter(help="server: check everything, and change nothing. client: only work out the result."),
    ] = "none",
    output: Output = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Change fields of objects.

    Prints for each whether it was patched, or that nothing had to change.

    fathom patch deployment/web -p '{"spec":{"replicas":5}}'
    fathom patch node/node-1 --type=json -p '[{"op":"remove","path":"/spec/unschedulable"}]'
    """
    content = _content(patch, patch_file, is_list=type_of_patch == "json")
    changes = ObjectChanges(kubeconfig, namespace=namespace, dry_run=dry_run, output=output)
    schemas = PatchSchemas(changes.server)
    for target in changes.named(what):
        before = changes.read(target)
        if dry_run == "client":
            after = _worked_out(target, before, content, MEDIA[type_of_patch], schemas)
            if output:
                print_documents([after], output)
                continue
            word = "patched (no change)" if before == after else "patched"
            changes.report(target, after, f"{word} (dry run)")
            continue
        after = changes.patch(target, content, media=MEDIA[type_of_patch], subresource=subresource)
        changes.report(target, after, "patched (no change)" if is_same(before, after) else "patched")
    return 0


def _content(text: str, file: Path | None, *, is_list: bool) -> Any:
    """Raises Problem."""
    if bool(text) == (file is not None):
        raise Problem("give the patch with -p, or its file with --patch-file")
    content = content_of(text.encode(), "the patch") if file is None else content_of(_read(file), str(file))
    wanted = list if is_list else dict
    if not isinstance(content, wanted):
        shape = "a list of operations" if is_list else "an object with the fields to change"
        raise Problem(f"the patch must be {shape}, as --type says")
    return content


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Problem(f"cannot read {file}: {error.strerror}") from error


def _worked_out(
    target: NamedObject, before: dict[str, Any], content: Any, media: str, schemas: PatchSchemas
) -> dict[str, Any]:
    """The object as the patch would make it, without the server's checks and defaults. Raises Problem."""
    from fathom.kube.patch.apply import apply_patch  # noqa: PLC0415  # A dry run alone needs it.

    schema = schemas.of(target.resource) if media == STRATEGIC_MERGE_PATCH else None
    try:
        return apply_patch(media, encode_json(content), before, schema)
    except ApiError as error:
        raise Problem(f"{target.label}: {error.message}", exit_code=ANSWER_IS_NO) from error
