"""A cache of decoded specs, for the many objects that are created from one template.

Checking types, putting quantities in their canonical form and filling in defaults are most of the cost of
reading a pod. A spec whose exact bytes were seen before needs none of it. The cache changes nothing but the
time: it holds bytes, so that every request gets an object of its own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.kube.definitions import parse
from fathom.kube.definitions.definitions import OBJECT_META
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.structs import Structs, normalise
from fathom.model.body import decode_json, encode_json
from fathom.model.objects import Obj

SPECS_MAX = 512
SPEC_BYTES_MAX = 16 << 10  # Larger specs are not cached: the cache takes some megabytes at most.


class Repeats:
    """Only for kinds whose defaults depend on the spec alone (`KindRules.repeats`)."""

    def __init__(self, structs: Structs) -> None:
        self._structs = structs
        self._split: Any = None
        self._known: dict[tuple[str, bytes], bytes] = {}  # Kind and a spec's bytes -> the complete spec.

    def read(self, kind: Kind, raw: bytes) -> Obj | None:
        """The object, complete with defaults; None where it must be decoded in full."""
        parts = self._parts(kind, raw)
        spec = self._known.get((kind.resource, bytes(parts.spec))) if parts is not None else None
        if parts is None or spec is None:
            return None
        meta = msgspec.to_builtins(parts.metadata)
        return {
            "kind": parts.kind,
            "apiVersion": parts.apiVersion,
            "metadata": meta,
            "spec": decode_json(spec),
        }

    def remember(self, kind: Kind, raw: bytes, obj: Obj) -> None:
        """Store the result of a full decoding without errors, before anything changes the object."""
        parts = self._parts(kind, raw)
        if parts is None or len(bytes(parts.spec)) > SPEC_BYTES_MAX:
            return
        if len(self._known) >= SPECS_MAX:
            self._known.clear()
        self._known[kind.resource, bytes(parts.spec)] = encode_json(obj["spec"])

    def _parts(self, kind: Kind, raw: bytes) -> Any:
        """The metadata decoded, the spec as bytes. None if the object has other fields."""
        if parse.too_many(raw):
            return None
        if self._split is None:
            self._split = msgspec.json.Decoder(_parts_type(self._structs), dec_hook=normalise)
        try:
            parts = self._split.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if parts.kind != kind.kind or parts.apiVersion != kind.api_version:
            return None
        # The same number of colons before and after, and one for each part: no field was given twice.
        colons = encode_json(parts.metadata).count(b":") + bytes(parts.spec).count(b":") + 4
        return parts if raw.count(b":") == colons else None


def _parts_type(structs: Structs) -> Any:
    fields = [
        ("kind", str),
        ("apiVersion", str),
        ("metadata", structs.of(OBJECT_META)),
        ("spec", msgspec.Raw),
    ]
    return msgspec.defstruct("Parts", fields, forbid_unknown_fields=True, gc=False)
