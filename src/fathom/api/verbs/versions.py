"""`resourceVersion`, `resourceVersionMatch` and `continue`, as the API concepts page defines them."""

from __future__ import annotations

import base64
import binascii
from typing import Literal

import msgspec

from fathom.api.request import Request
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, Cause, bad_request, invalid

Read = Literal["newest", "any", "not-older-than", "exact"]


class ListRevision(msgspec.Struct, frozen=True):
    """The revision at which to read a list."""

    read: Read
    revision: int = 0


class Continue(msgspec.Struct, frozen=True):
    """Where a paged list continues: after a key, at the revision of its first page."""

    rv: int
    start: str  # The last key of the page before, without the resource's prefix.
    v: str = "meta.k8s.io/v1"


def parse_revision(text: str) -> int:
    """ASCII digits only: `int` also accepts signs, spaces, underscores and other scripts' digits."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise _invalid("resourceVersion", text, "strconv.ParseUint: parsing: invalid syntax")
    return int(text)


def list_revision_of(request: Request) -> ListRevision:
    version = request.param("resourceVersion")
    match = request.param("resourceVersionMatch")
    if match and not version:
        raise _forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match not in {"", "Exact", "NotOlderThan"}:
        supported = 'supported values: "Exact", "NotOlderThan"'
        raise _cause("FieldValueNotSupported", f'Unsupported value: "{match}": {supported}')
    revision = parse_revision(version) if version else 0
    if match == "Exact":
        if revision == 0:
            raise _forbidden('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
        return ListRevision("exact", revision)
    if not version:
        return ListRevision("newest")
    if revision == 0:
        return ListRevision("any")
    if not match and request.param("limit") not in {"", "0"}:
        return ListRevision("exact", revision)  # Legacy: a paged list at a revision is exact.
    return ListRevision("not-older-than", revision)


def parse_limit(request: Request) -> int:
    text = request.param("limit")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def encode_continue(token: Continue) -> str:
    return base64.urlsafe_b64encode(encode_json(token)).decode().rstrip("=")


_TOKEN = msgspec.json.Decoder(Continue)


def decode_continue(text: str) -> Continue:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = _TOKEN.decode(raw)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise bad_request(
            "continue key is not valid: the token is malformed; list again without it"
        ) from None
    if token.rv < -1 or token.v != "meta.k8s.io/v1":
        raise bad_request("continue key is not valid: incorrect encoded start resourceVersion or version")
    return token


def _invalid(field: str, value: str, why: str) -> ApiError:
    cause = Cause(field, "FieldValueInvalid", f'Invalid value: "{value}": {why}')
    return invalid(group="meta.k8s.io", kind="ListOptions", name="", causes=[cause])


def _forbidden(why: str) -> ApiError:
    return _cause("FieldValueForbidden", f"Forbidden: {why}")


def _cause(reason: str, message: str) -> ApiError:
    cause = Cause("resourceVersionMatch", reason, message)
    return invalid(group="meta.k8s.io", kind="ListOptions", name="", causes=[cause])
