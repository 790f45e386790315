"""One JSON document in up to two forms.

The same document is needed as bytes (disk, wire) and as an object (admission, selectors, simulation). A
`Body` holds either and makes the other at most once, so that a write is encoded once for the store and all
watchers, a restart decodes only what is asked for, and a simulated world never encodes at all.

The stored form carries no resourceVersion: the store assigns the revision at commit, so it is spliced in
when the document is read (`encoded_at`, `obj_at`).
"""

from __future__ import annotations

from typing import cast

import msgspec

from fathom.model.objects import Obj

encode_json = msgspec.json.Encoder().encode
encode_sorted = msgspec.json.Encoder(order="sorted").encode  # Equal values have equal bytes.
decode_json = msgspec.json.Decoder().decode

_METADATA = b'"metadata":{'


class Body:
    """Immutable. At least one of the two forms is always there."""

    __slots__ = ("__weakref__", "_encoded", "_obj")  # The store keeps weak references to what it wrote.

    def __init__(self, obj: Obj | None = None, encoded: bytes | None = None) -> None:
        if obj is None and encoded is None:
            raise ValueError("a Body needs an object or its encoding")
        self._obj = obj
        self._encoded = encoded

    @property
    def obj(self) -> Obj:
        """The document as an object, shared: never change it in place. Decoded anew each time unless it is
        kept: decoding a kilobyte costs some microseconds, keeping its dictionaries five times the memory."""
        if self._obj is None:
            return cast(Obj, decode_json(cast(bytes, self._encoded)))
        return self._obj

    def keep_obj(self) -> None:
        """Keep the object form: for documents that are read all the time."""
        self._obj = self.obj

    @property
    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = encode_json(cast(Obj, self._obj))
        return self._encoded

    @property
    def encoded_bytes(self) -> int:
        """The length of the encoded form; 0 if it was never needed."""
        return 0 if self._encoded is None else len(self._encoded)

    def forget_obj(self) -> None:
        """Keep only the bytes."""
        if self._encoded is None:
            self._encoded = encode_json(cast(Obj, self._obj))
        self._obj = None

    def encoded_at(self, revision: int) -> bytes:
        """The bytes with `metadata.resourceVersion` set. Relies on `kind` and `apiVersion` being the only
        fields that may stand before `metadata`, which `canonical` guarantees for all we store."""
        raw = self.encoded
        start = raw.find(_METADATA)
        if start < 0:
            return raw
        start += len(_METADATA)
        comma = b"" if raw[start : start + 1] == b"}" else b","
        return b'%b"resourceVersion":"%d"%b%b' % (raw[:start], revision, comma, raw[start:])

    def fresh_at(self, revision: int) -> Obj:
        """Like `obj_at`, but a full copy that the caller may change."""
        obj = cast(Obj, decode_json(self.encoded))
        obj["metadata"] = {"resourceVersion": str(revision), **(obj.get("metadata") or {})}
        return obj

    def obj_at(self, revision: int) -> Obj:
        """A shallow copy with `metadata.resourceVersion` set."""
        return with_revision(self.obj, revision)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and self.obj == other.obj

    def __hash__(self) -> int:
        return hash(self.encoded)

    def __repr__(self) -> str:
        return f"Body({self.encoded!r})"


def with_revision(stored: Obj, revision: int) -> Obj:
    """A stored object as it is read: a shallow copy with `metadata.resourceVersion` set."""
    return {**stored, "metadata": {"resourceVersion": str(revision), **(stored.get("metadata") or {})}}


def canonical(obj: Obj) -> Obj:
    """The stored field order: kind, apiVersion, metadata, then the rest; no resourceVersion."""
    meta = {**(obj.get("metadata") or {})}
    meta.pop("resourceVersion", None)
    stored = {"kind": None, "apiVersion": None, "metadata": None, **obj}  # These keys come first.
    stored["metadata"] = meta
    return stored
