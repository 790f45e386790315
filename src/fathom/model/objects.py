"""Kubernetes objects as plain JSON dictionaries, and the few accessors that all packages need.

An object that has been stored, cached or sent is shared: it is never changed in place. Code that builds a
new version copies the levels that it changes (`with_metadata`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

Obj = dict[str, Any]

# kube-apiserver's alphabet of generated names: no vowels and no similar characters, so they spell no words.
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class Key(NamedTuple):
    """Names one object of a kind. Cluster-scoped objects have the namespace ''."""

    namespace: str
    name: str


def metadata(obj: Obj) -> Obj:
    meta = obj.get("metadata")
    return meta if isinstance(meta, dict) else {}


def key_of(obj: Obj) -> Key:
    meta = metadata(obj)
    return Key(meta.get("namespace") or "", meta.get("name") or "")


def uid_of(obj: Obj) -> str:
    return str(metadata(obj).get("uid") or "")


def labels_of(obj: Obj) -> dict[str, str]:
    return metadata(obj).get("labels") or {}


def is_deleting(obj: Obj) -> bool:
    return bool(metadata(obj).get("deletionTimestamp"))


def with_metadata(obj: Obj, **changes: Any) -> Obj:
    """A copy with some metadata fields set; a value of None removes the field."""
    meta = {**metadata(obj), **changes}
    return {**obj, "metadata": {name: value for name, value in meta.items() if value is not None}}


def lookup(obj: Any, *path: str) -> Any:
    """The value at a path of dictionary fields, or None where the path ends early."""
    for step in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj
