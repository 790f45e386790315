"""Removes the contents of Secrets from the tape, and so from deciding code too.

More people read a tape than may read a cluster's Secrets. The contents are removed before the input is
recorded *and* before it is delivered: no decision can depend on what its tape lacks. A process that needs
Secrets (an agent that mounts them) passes them on by name, and leaves fetching to its runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fathom.model.well_known import LAST_APPLIED

_decode = msgspec.json.decode
_encode = msgspec.json.encode


def secret_data(target: str) -> Callable[[bytes], bytes] | None:
    """A `Redact` for hosts: from an ask's target to the function that redacts its answers."""
    path = target.partition("?")[0]
    return _without_data if path.startswith("/api/v1/") and "secrets" in path.split("/") else None


def _without_data(payload: bytes) -> bytes:
    """An object, a list of them, or lines of watch events. Any other payload is removed completely."""
    lines = payload.splitlines(keepends=True)
    return b"".join(_line(line) for line in lines)


def object_data(encoded: bytes) -> bytes:
    """One encoded object without the contents that a Secret has."""
    return _line(encoded)


def _line(line: bytes) -> bytes:
    try:
        document = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
    _strip(document)
    return _encode(document) + (b"\n" if line.endswith(b"\n") else b"")


def _strip(document: Any) -> None:
    if not isinstance(document, dict):
        return
    for name in ("data", "stringData"):
        if isinstance(document.get(name), dict):
            document[name] = dict.fromkeys(document[name], "")
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    annotations.pop(LAST_APPLIED, None)
    _strip(document.get("object"))
    for item in document.get("items") or ():
        _strip(item)
