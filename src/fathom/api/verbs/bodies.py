"""Decodes a request's body into an object of the kind, with the caller's choice about unknown fields."""

from __future__ import annotations

from fathom.api.core import Call, Core
from fathom.api.request import Request
from fathom.kube.definitions import shared
from fathom.kube.definitions.decode import JSON, PROTOBUF, YAML, Decoded
from fathom.kube.definitions.kind import Kind
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, Cause, bad_request, invalid, no_such_path, unsupported_media_type
from fathom.model.objects import Obj

FIELD_VALIDATION = ("Ignore", "Warn", "Strict")


def content_type(request: Request) -> str:
    if request.headers.get("content-type") == JSON:
        return JSON
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_text(request: Request) -> None:
    """Check that the whole body is UTF-8: the decoder skips unknown fields without looking at their text."""
    body = request.body
    if body.isascii() or content_type(request) == PROTOBUF:
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        why = f"the body of the request is not UTF-8: byte {error.start} is an {error.reason}"
        raise bad_request(why) from None


def check_options(request: Request) -> None:
    """Check the query parameters that all writes have in common."""
    if not request.query:
        return
    causes = []
    for value in request.query.get("dryRun", ()):
        if value != "All":
            why = f'Unsupported value: "{value}": supported values: "All"'
            causes.append(Cause("dryRun", "FieldValueNotSupported", why))
    choice = request.param("fieldValidation")
    if choice and choice not in FIELD_VALIDATION:
        supported = ", ".join(f'"{value}"' for value in FIELD_VALIDATION)
        why = f'Unsupported value: "{choice}": supported values: {supported}'
        causes.append(Cause("fieldValidation", "FieldValueNotSupported", why))
    if len(request.param("fieldManager")) > 128:
        why = "Too long: may not be more than 128 bytes"
        causes.append(Cause("fieldManager", "FieldValueTooLong", why))
    if causes:
        raise invalid(group="meta.k8s.io", kind="CreateOptions", name="", causes=causes)


def decode(core: Core, call: Call, kind: Kind | None = None) -> Obj:
    """The request's body as an object of the kind, complete with defaults."""
    kind = kind or call.kind
    check_options(call.request)
    media = _media(call.request, kind)
    if not call.request.body:
        raise bad_request("the body of the request is empty: an object was expected")
    repeats = core.decoder.repeats if media == JSON and core.rules(kind).repeats else None
    remembered = repeats.read(kind, call.request.body) if repeats is not None else None
    if remembered is not None:
        return remembered
    decoded = core.decoder.decode(kind, call.request.body, media_type=media)
    obj = complete(core, call, kind, decoded)
    if repeats is not None and not decoded.unknown:
        repeats.remember(kind, call.request.body, obj)
    return obj


def as_json(core: Core, call: Call, gvk: tuple[str, str, str]) -> bytes:
    """The body as JSON, for callers that need only a few fields of it: options, subresources."""
    raw, kind = call.request.body, core.registry.by_gvk(*gvk)
    if kind is None:
        raise no_such_path()
    media = _media(call.request, kind) if raw else JSON
    return raw if media == JSON else encode_json(core.decoder.decode(kind, raw, media_type=media).obj)


def _media(request: Request, kind: Kind) -> str:
    media = content_type(request) or JSON
    accepted = (JSON, YAML, PROTOBUF) if kind.schema is None else (JSON, YAML)
    if media not in accepted:
        listed = ", ".join(accepted)
        raise unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {listed}"
        )
    return media


def complete(core: Core, call: Call, kind: Kind, decoded: Decoded) -> Obj:
    """Report what was wrong with the fields, then fill in defaults. The object is in its stored form."""
    _judge_unknown(call, kind, decoded)
    obj = shared.stored(kind, decoded.obj)
    core.decoder.apply_defaults(kind, obj)
    core.rules(kind).default(obj)
    return obj


def _judge_unknown(call: Call, kind: Kind, decoded: Decoded) -> None:
    if not decoded.unknown:
        return
    choice = call.request.param("fieldValidation") or "Warn"
    if choice == "Strict":
        raise unknown_fields(kind, decoded)
    if choice == "Warn":
        for problem in decoded.unknown:
            call.warn(problem)


def unknown_fields(kind: Kind, decoded: Decoded) -> ApiError:
    listed = ", ".join(decoded.unknown)
    return bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"strict decoding error: {listed}"
    )
