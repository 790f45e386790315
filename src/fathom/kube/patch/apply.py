"""Applies a patch of any type to an object."""

from __future__ import annotations

from typing import Any

from fathom.kube.definitions import parse, scalars
from fathom.kube.patch.json_patch import apply_operations, read_operations
from fathom.kube.patch.merge_patch import merge
from fathom.kube.patch.schema import PatchSchema
from fathom.kube.patch.strategic import merge_strategically
from fathom.model import causes
from fathom.model.errors import ApiError, bad_request, invalid, unsupported_media_type
from fathom.model.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from fathom.model.objects import Obj

ACCEPTED = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
ACCEPTED_FOR_CUSTOM = (JSON_PATCH, MERGE_PATCH)


def check_type(content_type: str, *, custom: bool) -> None:
    """Refuse an unknown type of patch, before anything is read."""
    if content_type not in (ACCEPTED_FOR_CUSTOM if custom else ACCEPTED):
        raise _unsupported(content_type, custom=custom)


def apply_patch(content_type: str, patch: bytes, current: Obj, schema: PatchSchema | None) -> Obj:
    """The patched object. `current` is not changed, but shared where the patch left it unchanged. A kind
    without a schema is a custom resource: it has no strategic merge."""
    match content_type.partition(";")[0].strip().lower():
        case "application/json-patch+json":
            patched = apply_operations(current, read_operations(patch))
        case "application/merge-patch+json":
            patched = merge(current, _object(patch))
        case "application/strategic-merge-patch+json" if schema is not None:
            patched = merge_strategically(current, _object(patch), schema)
        case unknown:
            raise _unsupported(unknown, custom=schema is None)
    if not isinstance(patched, dict):
        kind = scalars.json_kind(patched)
        cause = causes.invalid("patch", kind, "the patched object must be a JSON object")
        raise invalid(group="", kind="", name="", causes=[cause])
    return patched


def _object(patch: bytes) -> dict[str, Any]:
    try:
        read = parse.plain(patch)
    except parse.MalformedBody as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if not isinstance(read, dict):
        kind = scalars.json_kind(read)
        into = "Go value of type map[string]interface {}"
        raise bad_request(f"error decoding patch: json: cannot unmarshal {kind} into {into}")
    return read


def _unsupported(content_type: str, *, custom: bool) -> ApiError:
    if content_type == APPLY_PATCH:  # Of a scale: elsewhere it is no patch of this room.
        return unsupported_media_type("server-side apply is not supported here: apply the object itself")
    accepted = ", ".join(ACCEPTED_FOR_CUSTOM if custom else ACCEPTED)
    return unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    )
