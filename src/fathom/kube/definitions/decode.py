"""Decodes a body into an object of its kind: right types, no nulls, canonical quantities and times.

    bytes ──▶ Struct ──▶ dict                         the fast path, all in C
      │ refused: unknown field, wrong type, odd form
      └─────▶ JSON value ──▶ walk ──▶ dict, unknown   the slow path, which can explain itself

YAML and protobuf are converted to a JSON value first.

Custom resources are pruned and defaulted by their structural schema. Whether their values are *valid* is
checked later, on the object as it will be stored (`causes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from fathom.kube.definitions import parse, scalars
from fathom.kube.definitions.defaults import Defaults
from fathom.kube.definitions.definitions import OBJECT_META, Definitions, gvks_of, type_of
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.parse import MalformedBody
from fathom.kube.definitions.protobuf import Messages
from fathom.kube.definitions.repeats import Repeats
from fathom.kube.definitions.structs import Structs, normalise
from fathom.kube.definitions.walk import WrongField, go_name, walk
from fathom.kube.ownership.shapes import Shape, custom_shape, shape_of
from fathom.kube.patch.schema import PatchSchema, patch_schema
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, Cause, bad_request
from fathom.model.objects import Obj

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_SUMMARY_MAX: Final = 30  # As many bytes of a refused body as kube-apiserver's message shows.


class Decoded(msgspec.Struct, frozen=True):
    obj: Obj  # Belongs to the caller.
    unknown: tuple[str, ...] = ()  # 'unknown field "spec.foo"', 'duplicate field "spec.x"'


class Readers:
    """Readers compiled from definitions, each on first use; by definition. Decoders share them."""

    def __init__(self, definitions: Definitions) -> None:
        self.structs = Structs(definitions)
        self.fast: dict[str, Callable[[bytes], Any] | None] = {}  # None: has no fast path.
        self.patch: dict[str, PatchSchema | None] = {}
        self.shapes: dict[str, Shape] = {}
        self.zeros: dict[str, tuple[tuple[str, Any], ...]] = {}  # Of the status.
        self.messages = Messages(definitions)


class Decoder:
    """Reads bodies of every kind."""

    def __init__(
        self, definitions: Definitions, defaults: Defaults, *, readers: Readers | None = None
    ) -> None:
        readers = readers or Readers(definitions)
        self._definitions = definitions
        self._defaults = defaults
        self._structs = readers.structs
        self._fast = readers.fast
        self._patch = readers.patch
        self._shapes = readers.shapes
        self._zeros = readers.zeros
        self._messages = readers.messages
        self.repeats = Repeats(readers.structs)

    def decode(self, kind: Kind, raw: bytes, *, media_type: str = JSON) -> Decoded:
        """Read a request's body: JSON, YAML or, of a built-in kind, protobuf. Raises ApiError 400."""
        if media_type == PROTOBUF:
            return self._decode_protobuf(kind, raw)
        if parse.too_many(raw):
            raise _unrecognized(kind, parse.TOO_MANY, raw)
        if kind.schema is None and media_type != YAML:
            decoded = self._decode_fast(kind, raw)
            if decoded is not None:
                return decoded
        try:
            tree = _from_yaml(raw) if media_type == YAML else _parsed_json(raw)
        except MalformedBody as error:
            why = str(error) if media_type == YAML else _not_json(str(error))
            raise _unrecognized(kind, why, raw) from None
        return self._decode_tree(kind, tree, raw)

    def decode_config(self, kind: Kind, raw: bytes) -> Decoded:
        """Read what a client applies, JSON or YAML: the fields that it names, without defaults."""
        if parse.too_many(raw):
            raise _unrecognized(kind, parse.TOO_MANY, raw)
        try:
            tree = _parsed_json(raw) if raw.lstrip().startswith(b"{") else _from_yaml(raw)
        except MalformedBody as error:
            raise bad_request(f"error decoding YAML: {error}") from None
        named = tree if isinstance(tree, dict) else {}
        if not named.get("kind") or not named.get("apiVersion"):
            group, _, version = str(named.get("apiVersion") or "").rpartition("/")
            raise bad_request(f"invalid object type: {group}/{version}, Kind={named.get('kind') or ''}")
        return self._decode_tree(kind, tree, raw, defaulted=False)

    def decode_obj(self, kind: Kind, obj: Obj) -> Decoded:
        """Read an object that is already parsed: one that came out of a patch. It is not changed."""
        fast = None if kind.schema is not None else self._fast_of(kind.definition)
        if fast is not None and _is_of_kind(kind, obj):
            try:
                struct = msgspec.convert(obj, self._structs.of(kind.definition), dec_hook=normalise)
                return Decoded(msgspec.to_builtins(struct))
            except (msgspec.ValidationError, RecursionError):
                pass
        try:
            scalars.free(obj)
        except ValueError as error:
            raise _unhandled(kind, kind.kind, kind.version, str(error)) from None
        return self._decode_tree(kind, obj, b"")

    def apply_defaults(self, kind: Kind, obj: Obj) -> None:
        """Fill in the unconditional defaults of a built-in kind, in place. Custom resources got theirs when
        they were decoded; defaults that depend on other fields are in the rules of the kind."""
        if kind.schema is None:
            self._defaults.apply(kind.resource, obj)

    def fill_status(self, kind: Kind, obj: Obj) -> None:
        """As in Go: a built-in kind's status is shown even when it is empty, and its required fields are
        shown even when they are not set. Typed clients rely on it."""
        status = obj.setdefault("status", {})
        for field, zero in self._status_zeros(kind.definition):
            status.setdefault(field, zero)

    def _status_zeros(self, definition: str) -> tuple[tuple[str, Any], ...]:
        if definition not in self._zeros:
            self._zeros[definition] = tuple(_required_zeros(self._definitions, definition))
        return self._zeros[definition]

    def patch_schema(self, kind: Kind) -> PatchSchema | None:
        """The schema for strategic merge; None for kinds that have no strategic merge."""
        if kind.schema is not None:
            return None
        if kind.definition not in self._patch:
            self._patch[kind.definition] = patch_schema(self._definitions.schemas, kind.definition)
        return self._patch[kind.definition]

    def shape(self, kind: Kind) -> Shape:
        """How its objects divide into fields that are owned one by one."""
        if kind.schema is not None:
            return custom_shape(self._definitions, kind.schema, OBJECT_META)
        if kind.definition not in self._shapes:
            self._shapes[kind.definition] = shape_of(self._definitions, kind.definition)
        return self._shapes[kind.definition]

    def causes(self, kind: Kind, obj: Obj) -> list[Cause]:
        """The schema errors of a custom resource as it would be stored. Strategies validate built-in
        kinds."""
        return [] if kind.schema is None else kind.structural.causes(obj)

    def _fast_of(self, definition: str) -> Callable[[bytes], Any] | None:
        if definition not in self._fast:
            self._fast[definition] = None
            if definition in self._definitions and not self._structs.recursive(definition):
                decoder = msgspec.json.Decoder(self._structs.of(definition), dec_hook=normalise)
                self._fast[definition] = decoder.decode
        return self._fast[definition]

    def _decode_fast(self, kind: Kind, raw: bytes) -> Decoded | None:
        """None where the slow path is needed."""
        fast = self._fast_of(kind.definition)
        if fast is None:
            return None
        try:
            struct = fast(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        obj: Obj = msgspec.to_builtins(struct)
        if not _is_of_kind(kind, obj):
            if "kind" in obj or "apiVersion" in obj:
                return None
            obj = _identified(kind, obj)
        # The same number of colons before and after: no field was given twice (and no null was dropped).
        if raw.count(b":") == encode_json(struct).count(b":"):
            return Decoded(obj)
        return Decoded(obj, _duplicates(parse.noted(raw)))

    def _decode_protobuf(self, kind: Kind, raw: bytes) -> Decoded:
        try:
            obj = self._messages.read(kind, raw)
        except MalformedBody as error:
            raise _unrecognized(kind, str(error), raw) from None
        return self.decode_obj(kind, obj)

    def _decode_tree(self, kind: Kind, tree: Any, raw: bytes, *, defaulted: bool = True) -> Decoded:
        if not isinstance(tree, dict):
            message = f"json: cannot unmarshal {scalars.json_kind(tree)} into Go value of type struct"
            raise _unrecognized(kind, _not_json(message), raw)
        self._check_identity(kind, tree, raw)
        try:
            obj, unknown = self._read(kind, tree, defaulted=defaulted)
        except WrongField as error:
            raise _unhandled(kind, kind.kind, kind.version, str(error)) from None
        except RecursionError:
            raise _unhandled(kind, kind.kind, kind.version, scalars.TOO_DEEP) from None
        unknown_fields = tuple(f'unknown field "{path}"' for path in unknown)
        return Decoded(_identified(kind, obj), unknown_fields + _duplicates(tree))

    def _read(self, kind: Kind, tree: Obj, *, defaulted: bool) -> tuple[Obj, list[str]]:
        if kind.schema is None:
            return walk(self._definitions, kind.definition, tree)
        cleaned: Obj = msgspec.to_builtins(tree)
        sent_meta = tree.get("metadata")
        meta, unknown = walk(
            self._definitions, OBJECT_META, {} if sent_meta is None else sent_meta, at="metadata"
        )
        cleaned["metadata"] = meta
        structural = kind.structural
        unknown += structural.prune(cleaned)
        if defaulted:
            structural.default(cleaned)
        return cleaned, unknown

    def _check_identity(self, kind: Kind, tree: Obj, raw: bytes) -> None:
        """The body must have the kind and version of the address, or none."""
        version, name = tree.get("apiVersion"), tree.get("kind")
        for field, value in (("apiVersion", version), ("kind", name)):
            if value is not None and not isinstance(value, str):
                json_type = scalars.json_kind(value)
                message = f"json: cannot unmarshal {json_type} into Go struct field .{field} of type string"
                raise _unrecognized(kind, _not_json(message), raw)
        if kind.schema is not None:
            _require_identity(kind, name, version, raw)
        if version and version not in self._accepted(kind):
            expected = f"does not match the expected API version ({kind.api_version})"
            raise bad_request(f"the API version in the data ({version}) {expected}")
        if name and name != kind.kind:
            raise _unhandled(kind, name, kind.version, self._no_conversion(kind, name))

    def _accepted(self, kind: Kind) -> tuple[str, ...]:
        """DeleteOptions may have the API version of any group; every other kind has one."""
        if kind.definition not in self._definitions:
            return (kind.api_version,)
        listed = gvks_of(self._definitions[kind.definition])
        return tuple(f"{group}/{version}" if group else version for group, version, _ in listed)

    def _no_conversion(self, kind: Kind, name: str) -> str:
        definition = self._definitions.name_of(kind.group, kind.version, name)
        if not definition:
            return f'no kind "{name}" is registered for version "{kind.api_version}"'
        return f"converting ({go_name(definition)}) to ({kind.version}.{kind.kind}): unknown conversion"


_ZEROS: Final[dict[str, Any]] = {"integer": 0, "boolean": False, "string": ""}


def _required_zeros(definitions: Definitions, definition: str) -> Iterator[tuple[str, Any]]:
    """The required fields of a kind's status, with their zero values."""
    status = definitions.resolve(definitions[definition].get("properties", {}).get("status") or {})
    for field in status.get("required", ()):
        kind = type_of(definitions.resolve(status["properties"][field]))
        if kind in _ZEROS:
            yield field, _ZEROS[kind]


def _parsed_json(raw: bytes) -> Any:
    parse.plain(raw)
    return parse.noted(raw)


def _from_yaml(raw: bytes) -> Any:
    from fathom.kube.definitions.yaml import from_yaml  # noqa: PLC0415 - most clients send JSON, and PyYAML is slow to load

    return from_yaml(raw)


def _duplicates(tree: Any) -> tuple[str, ...]:
    return tuple(f'duplicate field "{path}"' for path in parse.duplicates(tree))


def _is_of_kind(kind: Kind, obj: Obj) -> bool:
    return obj.get("kind") == kind.kind and obj.get("apiVersion") == kind.api_version


def _identified(kind: Kind, obj: Obj) -> Obj:
    """With kind and apiVersion filled in, and first."""
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    return head | {name: value for name, value in obj.items() if name not in head}


def _require_identity(kind: Kind, name: Any, version: Any, raw: bytes) -> None:
    for field, value in (("Kind", name), ("apiVersion", version)):
        if not value:
            raise _unrecognized(
                kind, f"Object '{field}' is missing in '{raw[:200].decode(errors='replace')}'", raw
            )


def _not_json(why: str) -> str:
    return f"couldn't get version/kind; json parse error: {why}"


def _unhandled(kind: Kind, name: str, version: str, why: str) -> ApiError:
    return bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def _unrecognized(kind: Kind, why: str, raw: bytes) -> ApiError:
    summary = _summary(raw)
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): {why} ({summary})"
    )


def _summary(raw: bytes) -> str:
    if not raw:
        return "<empty>"
    start = raw[:_SUMMARY_MAX]
    text = start.decode(errors="replace") if raw.startswith(b"{") else start.hex()
    return f"{text} ..." if len(raw) > _SUMMARY_MAX else text
