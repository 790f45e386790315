"""The API's one exception: what went wrong, whose fault it is, what to do. Translated to a Status once, at
the edge. Expected answers (unschedulable, conflict, unknown) are values, not exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import msgspec

from fathom.model.objects import Obj


class Cause(msgspec.Struct, frozen=True):
    """One reason among several. `reason` is Kubernetes' cause type: FieldValueInvalid, FieldValueRequired,
    FieldValueNotSupported, FieldValueDuplicate, FieldValueForbidden, FieldValueTooLong, ..."""

    field: str
    reason: str
    message: str


# Checks stop after so many causes: an answer lists far fewer.
FOUND_MAX = 1_000
FOUND_CHARS_MAX = 1_000_000


class TooManyCauses(Exception):
    """Raised when a check has found more causes than an answer will list. `found` has those so far."""

    def __init__(self, causes: Causes) -> None:
        super().__init__(f"more than {len(causes)} causes")
        self.found = causes


class Causes(list[Cause]):
    """What is wrong with one object. Every entry of a long list may be invalid, and each cause may show the
    whole list: collecting them all would take far longer than the rest of the request."""

    _chars = 0  # Of all causes. Made with every write, and nearly always empty: so it needs no `__init__`.

    def append(self, cause: Cause) -> None:
        super().append(cause)
        self._chars += len(cause.message) + len(cause.field)
        if len(self) >= FOUND_MAX or self._chars >= FOUND_CHARS_MAX:
            raise TooManyCauses(self)

    def extend(self, causes: Iterable[Cause]) -> None:
        for cause in causes:
            self.append(cause)

    def __iadd__(self, causes: Iterable[Cause]) -> Self:  # type: ignore[override, misc]  # a list's own is as wide
        for cause in causes:
            self.append(cause)
        return self


class ApiError(Exception):
    """An answer other than success, worded as in Kubernetes."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Obj | None = None,
        retry_after_s: int | None = None,
        list_meta: Obj | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.allow: tuple[str, ...] = ()  # The allowed methods, after a request with another.
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after_s = retry_after_s
        self.decision = ""  # The decision whose write got this answer, where the sender knows it.
        self.list_meta = list_meta or {}  # A continue token that still works, with a 410.

    def status(self) -> Obj:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_meta,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details or self.retry_after_s is not None:
            body["details"] = dict(self.details)
            if self.retry_after_s is not None:
                body["details"]["retryAfterSeconds"] = self.retry_after_s
        body["code"] = self.code
        return body


def _details_of(resource: str, name: str) -> Obj:
    plural, _, group = resource.partition(".")
    return {
        **({"name": name} if name else {}),
        **({"group": group} if group else {}),
        "kind": plural,
    }


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> ApiError:
    return ApiError(401, "Unauthorized", message)


def forbidden(message: str, *, resource: str = "", name: str = "", causes: Sequence[Cause] = ()) -> ApiError:
    details = _details_of(resource, name) if resource else {}
    if causes:
        details["causes"] = [as_wire(cause) for cause in causes]
    return ApiError(403, "Forbidden", message, details=details)


def not_found(resource: str, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource} "{name}" not found', details=_details_of(resource, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed(*allowed: str) -> ApiError:
    """`allowed`: the methods that the path supports."""
    message = "the server does not allow this method on the requested resource"
    error = ApiError(405, "MethodNotAllowed", message)
    error.allow = tuple(sorted(allowed))
    return error


def not_acceptable(message: str) -> ApiError:
    return ApiError(406, "NotAcceptable", message)


def already_exists(resource: str, name: str) -> ApiError:
    return ApiError(
        409, "AlreadyExists", f'{resource} "{name}" already exists', details=_details_of(resource, name)
    )


def conflict(resource: str, name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_details_of(resource, name))


CHANGED_SINCE_READ = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def expired(message: str, *, continue_token: str = "") -> ApiError:
    meta = {"continue": continue_token} if continue_token else {}
    return ApiError(410, "Expired", message, list_meta=meta)


def too_large(limit_bytes: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")


def too_slow() -> ApiError:
    return ApiError(408, "Timeout", "the request body did not arrive in time")


def refused_by_store(why: str) -> ApiError:
    """The storage engine accepts no commit of this size; a retry cannot help."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


def unsupported_media_type(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)


# An answer lists so many causes, and so much of each: one megabyte can be invalid in half a million places,
# and each cause could repeat the whole of it.
CAUSES_MAX = 100
CAUSE_CHARS_MAX = 16 * 1024


def invalid(*, group: str, kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with one cause per broken field, worded as kube-apiserver words it."""
    qualified = f"{kind}.{group}" if group else kind
    listed_causes = [_within_bounds(cause) for cause in causes[:CAUSES_MAX]]
    lines = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in listed_causes]
    if len(causes) > CAUSES_MAX:
        lines.append(f"and {len(causes) - CAUSES_MAX} more")
    listed = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    name = name[:CAUSE_CHARS_MAX]
    details: Obj = {"name": name, **({"group": group} if group else {}), "kind": kind}
    details["causes"] = [as_wire(cause) for cause in listed_causes]
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', details=details)


def _within_bounds(cause: Cause) -> Cause:
    if len(cause.message) <= CAUSE_CHARS_MAX and len(cause.field) <= CAUSE_CHARS_MAX:
        return cause
    cut = cause.message[: CAUSE_CHARS_MAX - 3] + "..."
    return Cause(cause.field[:CAUSE_CHARS_MAX], cause.reason, cut)


def as_wire(cause: Cause) -> Obj:
    wire = {"reason": cause.reason, "message": cause.message}
    return {**wire, "field": cause.field} if cause.field else wire


def too_many_requests(message: str, *, retry_after_s: int = 1) -> ApiError:
    return ApiError(429, "TooManyRequests", message, retry_after_s=retry_after_s)


def bodies_full() -> ApiError:
    return too_many_requests("The server holds as many request bodies as it can, please try again later.")


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")


def not_supported(feature: str) -> ApiError:
    """A part of Kubernetes' API that fathom does not have: refused with a clear message, never half done."""
    return ApiError(501, "NotImplemented", f"fathom does not support {feature}")


def unavailable(message: str, *, retry_after_s: int = 1) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message, retry_after_s=retry_after_s)


def timed_out(message: str) -> ApiError:
    """The outcome is unknown: the write may have committed. Read before trying again."""
    return ApiError(504, "Timeout", message)
