"""Outcomes of a write. Values, not exceptions: each one needs its own next step.

Committed   the server wrote it; here is the object
Conflict    another write came first; nothing was written: read, decide again
Rejected    the server refused it; nothing was written; a retry will not help until something changes
Unknown     it may or may not have happened, or may still happen: only a read of the object can tell
"""

from __future__ import annotations

import msgspec

from fathom.model.objects import Obj, lookup, metadata


class Committed(msgspec.Struct, frozen=True):
    obj: Obj
    audit_id: str = ""  # Of the request in the audit log, where the transport gives it.

    @property
    def revision(self) -> int:
        return int(metadata(self.obj).get("resourceVersion") or 0)


class Conflict(msgspec.Struct, frozen=True):
    current: Obj | None  # From a read afterwards; None where it was not read.
    why: str
    causes: tuple[str, ...] = ()  # Ids from the server's answer: 'Fenced', 'NodeFull'.


class Rejected(msgspec.Struct, frozen=True):
    code: int
    reason: str
    message: str
    retry_after_s: float = 0.0
    causes: tuple[str, ...] = ()  # As a conflict's: 'QuotaExceeded'.
    audit_id: str = ""


class Unknown(msgspec.Struct, frozen=True):
    cause: str


Outcome = Committed | Conflict | Rejected | Unknown

# These do not show whether the write happened. 500 and 503 too: a server may fail after its commit.
AMBIGUOUS = frozenset({0, 408, 500, 502, 503, 504})


def outcome_of(status: int, obj: Obj, cause: str = "", *, audit_id: str = "") -> Outcome:
    """`obj` is the answer's body: the object, or a Status."""
    if status in {200, 201, 202}:
        return Committed(obj, audit_id)
    message = str(obj.get("message") or cause or f"HTTP {status}")
    if status == 409:
        return Conflict(None, message, causes_in(obj))
    if status in AMBIGUOUS:
        return Unknown(message)
    details = obj.get("details")
    retry_after_s = details.get("retryAfterSeconds", 0) if isinstance(details, dict) else 0
    reason = str(obj.get("reason") or "")
    return Rejected(status, reason, message, float(retry_after_s or 0), causes_in(obj), audit_id)


def causes_in(status: Obj) -> tuple[str, ...]:
    """The reasons of a Status' causes; empty where it has none, or is no Status."""
    causes = lookup(status, "details", "causes")
    listed = causes if isinstance(causes, list) else ()
    return tuple(str(cause.get("reason") or "") for cause in listed if isinstance(cause, dict))
