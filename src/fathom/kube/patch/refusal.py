"""The error for a patch whose result is not a valid object of its kind, with kube-apiserver's messages.

A body that cannot be read is a 400; a patch that leads to such a body is a 422 about the patch. After a merge
or a JSON patch the message shows the patched object; after a strategic merge the patch, as Go prints a map.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fathom.kube.definitions import parse
from fathom.model import causes
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, invalid
from fathom.model.media_types import STRATEGIC_MERGE_PATCH
from fathom.model.objects import Obj

_CANNOT_HANDLE: Final = " cannot be handled as a "
_UNMARSHAL: Final = re.compile(r"json: cannot unmarshal (\w+).* of type (\S+)$")
# The names of types in a strategic merge, which works on Go values and not on JSON.
_GO_KINDS: Final = {"object": "map", "array": "slice", "number": "int64"}
_CONTAINER_DETAILS: Final = (("[]", "cannot restore slice from {}"), ("map[", "cannot restore map from {}"))
_SCALARS: Final = re.compile(r"string|bool|u?int\d*|float\d+")


def unreadable(content_type: str, patch: bytes, patched: Obj, error: ApiError) -> ApiError:
    """`error` is the 400 error from decoding the patched object."""
    _, _, kind_and_detail = error.message.partition(_CANNOT_HANDLE)
    detail = kind_and_detail.partition(": ")[2] or error.message
    if content_type == STRATEGIC_MERGE_PATCH:
        cause = causes.invalid("patch", go_map(parse.plain(patch)), _strategic_detail(detail))
    else:
        cause = causes.invalid("patch", encode_json(patched).decode(), detail)
    return invalid(group="", kind="", name="", causes=[cause])


def _strategic_detail(detail: str) -> str:
    match = _UNMARSHAL.match(detail)
    if match is None:
        return detail
    kind, wanted = _GO_KINDS.get(match[1], match[1]), match[2]
    for start, template in _CONTAINER_DETAILS:
        if wanted.startswith(start):
            return template.format(kind)
    if _SCALARS.fullmatch(wanted):
        return f"unrecognized type: {wanted}"
    return f"cannot restore struct from: {kind}"


def go_map(value: Any) -> str:
    """As Go's %+v prints what it read from JSON: keys in order, strings bare."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_map(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(go_map(item) for item in value)}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
