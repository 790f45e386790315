"""Checks values against a structural schema, with kube-apiserver's messages.

Each check is a small function made from one keyword of a schema. `causes` walks an object and collects their
results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from fathom.kube.definitions import schema_formats
from fathom.kube.definitions.definitions import Schema
from fathom.kube.definitions.parse import join
from fathom.model import causes as model_causes
from fathom.model.body import encode_json
from fathom.model.errors import CAUSES_MAX, ApiError, Cause, Causes, TooManyCauses

if TYPE_CHECKING:
    from fathom.kube.definitions.structural import Node

Check = Callable[[Any, str], Iterator[Cause]]  # (value, its path)

# A schema's author chooses the number of alternatives, a client the number of values that are checked against
# each: the product has a limit. A step takes about a microsecond.
STEPS_MAX: Final = 300_000
CHARS_PER_STEP: Final = 16
# Keywords whose checks read the whole value, or show it.
_WHOLE_VALUE: Final = frozenset(
    {"enum", "format", "pattern", "minLength", "minItems", "minProperties", "allOf", "anyOf", "oneOf", "not"}
)


class Steps:
    """The steps that alternatives may still take on one object."""

    def __init__(self) -> None:
        self._left = STEPS_MAX

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            message = "the alternatives (allOf, anyOf, oneOf, not) of its schema are too many for an object"
            raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {message} of this size")


# A check of a value against nested schemas, which counts its steps.
AlternativesCheck = Callable[[Any, str, Steps], Iterator[Cause]]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_MATCHES: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    # Beyond that, floats cannot represent every whole number: Kubernetes does not accept them as integers.
    "integer": lambda value: (
        _is_number(value) and value == int(value) and (isinstance(value, int) or abs(value) <= 2**53)
    ),
    "number": _is_number,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


TYPE_INVALID: Final = "FieldValueTypeInvalid"


def causes(node: Node, value: Any, path: str, steps: Steps | None = None) -> list[Cause]:
    """All errors of a value and of what is inside it. Raises ApiError 413 if checking takes too long."""
    return _causes(node, value, path, steps or Steps(), counted=False)


def _causes(node: Node, value: Any, path: str, steps: Steps, *, counted: bool) -> list[Cause]:
    """`counted`: the node is inside an alternative. Elsewhere a value is checked against one node only."""
    if counted:
        steps.take(node.steps + (_size(value) // CHARS_PER_STEP if node.reads_all else 0))
    errors: list[Cause] = Causes()
    for check in node.checks:
        errors += check(value, path)
    for check_alternatives in node.alternatives:
        errors += check_alternatives(value, path, steps)
    if any(cause.field == path and cause.reason == TYPE_INVALID for cause in errors):
        return errors  # Wrong type: no other message about the value would make sense.
    if isinstance(value, dict):
        for name, inner in value.items():
            below = node.properties.get(name, node.additional)
            if below is not None:
                errors += _causes(below, inner, join(path, name), steps, counted=counted)
    elif isinstance(value, list) and node.items is not None:
        for at, inner in enumerate(value):
            errors += _causes(node.items, inner, f"{path}[{at}]", steps, counted=counted)
    return errors


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return len(encode_json(value)) if isinstance(value, dict | list) else 0


def _some_causes(node: Node, value: Any, path: str, steps: Steps) -> list[Cause]:
    """The errors for one alternative: only some of them if there are too many."""
    try:
        return _causes(node, value, path, steps, counted=True)
    except TooManyCauses as many:
        return many.found[:CAUSES_MAX]


def compile_checks(schema: Schema) -> list[Check]:
    """The type's check first: each other check may rely on it."""
    checks = [_type(schema)] if "type" in schema or schema.get("x-kubernetes-int-or-string") else []
    for keyword, make in _KEYWORDS.items():
        if schema.get(keyword) is not None:
            checks.append(make(schema))
    return checks


def compile_alternatives(schema: Schema) -> list[AlternativesCheck]:
    return [make(schema) for keyword, make in _ALTERNATIVES.items() if schema.get(keyword) is not None]


def steps_of(schema: Schema) -> int:
    """The steps of checking a small value against one level of a schema."""
    return 1 + len(schema.get("required") or ())


def reads_whole_value(schema: Schema) -> bool:
    return not _WHOLE_VALUE.isdisjoint(schema)


def kind_of(value: Any) -> str:
    """The JSON type of a value, as schemas name it."""
    if value is None:
        return "null"
    return next(name for name, matches in _MATCHES.items() if matches(value))


def wrong_type(path: str, wanted: str, value: Any) -> Cause:
    shown = model_causes.quoted(value if isinstance(value, str) else str(value))
    return Cause(
        path, TYPE_INVALID, f"Invalid value: {shown}: {path} in body must be of type {wanted}: {shown}"
    )


def _wrong(path: str, value: Any, demand: str) -> Cause:
    return model_causes.invalid(path, value, f"{path} in body {demand}")


def _type(schema: Schema) -> Check:
    either = bool(schema.get("x-kubernetes-int-or-string"))
    wanted = "integer,string" if either else str(schema["type"])
    nullable = bool(schema.get("nullable"))

    def check(value: Any, path: str) -> Iterator[Cause]:
        if value is None and nullable:
            return
        good = _MATCHES["integer"](value) or isinstance(value, str) if either else _MATCHES[wanted](value)
        if not good:
            yield wrong_type(path, wanted, kind_of(value))

    return check


def _required(schema: Schema) -> Check:
    def check(value: Any, path: str) -> Iterator[Cause]:
        if isinstance(value, dict):
            yield from (
                model_causes.required(join(path, name)) for name in schema["required"] if name not in value
            )

    return check


def _enum(schema: Schema) -> Check:
    allowed = {encode_json(value) for value in schema["enum"]}
    listed = [value if isinstance(value, str) else encode_json(value).decode() for value in schema["enum"]]
    nullable = bool(schema.get("nullable"))

    def check(value: Any, path: str) -> Iterator[Cause]:
        if encode_json(value) not in allowed and not (value is None and nullable):
            yield model_causes.not_supported(path, value, listed)

    return check


def _minimum(schema: Schema) -> Check:
    limit, exclusive = schema["minimum"], bool(schema.get("exclusiveMinimum"))
    message = f"should be greater than {'' if exclusive else 'or equal to '}{limit}"

    def check(value: Any, path: str) -> Iterator[Cause]:
        if _is_number(value) and (value < limit or (exclusive and value == limit)):
            yield _wrong(path, value, message)

    return check


def _maximum(schema: Schema) -> Check:
    limit, exclusive = schema["maximum"], bool(schema.get("exclusiveMaximum"))
    message = f"should be less than {'' if exclusive else 'or equal to '}{limit}"

    def check(value: Any, path: str) -> Iterator[Cause]:
        if _is_number(value) and (value > limit or (exclusive and value == limit)):
            yield _wrong(path, value, message)

    return check


def _multiple_of(schema: Schema) -> Check:
    factor = schema["multipleOf"]

    def check(value: Any, path: str) -> Iterator[Cause]:
        if _is_number(value) and not _divides(factor, value):
            yield _wrong(path, value, f"should be a multiple of {factor}")

    return check


def _divides(factor: float, value: float) -> bool:
    """A factor of zero or an infinite quotient refuses no value."""
    if not factor:
        return True
    if isinstance(factor, int) and isinstance(value, int):
        return value % factor == 0
    parts = value / factor
    if not math.isfinite(parts):
        return True
    return abs(parts - round(parts)) < 1e-9 * max(1.0, abs(parts))


def _pattern(schema: Schema) -> Check:
    pattern = schema["pattern"]
    matches = schema_formats.compile_pattern(pattern)

    def check(value: Any, path: str) -> Iterator[Cause]:
        if isinstance(value, str) and not matches(value):
            yield _wrong(path, value, f"should match '{pattern}'")

    return check


def _format(schema: Schema) -> Check:
    name = schema["format"]
    well_formed = schema_formats.FORMATS.get(name)

    def check(value: Any, path: str) -> Iterator[Cause]:
        if well_formed is not None and not well_formed(value):
            yield wrong_type(path, name, value)

    return check


def _sized(keyword: str, of: type, refuse: Callable[[Any, str, int], Cause]) -> Callable[[Schema], Check]:
    """A check of the length of a string, list or object."""
    at_least = keyword.startswith("min")

    def make(schema: Schema) -> Check:
        limit = schema[keyword]

        def check(value: Any, path: str) -> Iterator[Cause]:
            if isinstance(value, of) and (len(value) < limit if at_least else len(value) > limit):  # type: ignore[arg-type]  # str, list or dict
                yield refuse(value, path, limit)

        return check

    return make


def _unique(schema: Schema) -> Check:
    """Lists that are sets, or maps by some fields of their items."""
    keys = {key: at for at, key in enumerate(schema.get("x-kubernetes-list-map-keys") or ())}
    kind = schema["x-kubernetes-list-type"]

    def check(value: Any, path: str) -> Iterator[Cause]:
        seen: set[bytes] = set()
        for at, item in enumerate(value if isinstance(value, list) and kind != "atomic" else ()):
            shown = _keyed(item, keys) if keys and isinstance(item, dict) else item
            encoded = encode_json(shown)
            if encoded in seen:
                yield model_causes.duplicate(f"{path}[{at}]", shown)
            seen.add(encoded)

    return check


def _keyed(item: dict[str, Any], keys: dict[str, int]) -> dict[str, Any]:
    """The item's keys, in the schema's order. Costs what the item's size is, however many keys there are."""
    return {key: item[key] for key in sorted(keys.keys() & item.keys(), key=keys.__getitem__)}


def _embedded(_: Schema) -> Check:
    def check(value: Any, path: str) -> Iterator[Cause]:
        if isinstance(value, dict):
            for name in ("apiVersion", "kind"):
                if not value.get(name):
                    yield model_causes.required(join(path, name), "must not be empty")

    return check


def _all_of(schema: Schema) -> AlternativesCheck:
    count = _counter(schema["allOf"])

    def check(value: Any, path: str, steps: Steps) -> Iterator[Cause]:
        failures, good = count(value, path, steps)
        if good < len(schema["allOf"]):
            yield from failures

    return check


def _any_of(schema: Schema) -> AlternativesCheck:
    count = _counter(schema["anyOf"])

    def check(value: Any, path: str, steps: Steps) -> Iterator[Cause]:
        failures, good = count(value, path, steps)
        if not good:
            yield model_causes.invalid(path, value, f'"{path}" must validate at least one schema (anyOf)')
            yield from failures

    return check


def _one_of(schema: Schema) -> AlternativesCheck:
    count = _counter(schema["oneOf"])

    def check(value: Any, path: str, steps: Steps) -> Iterator[Cause]:
        failures, good = count(value, path, steps)
        if good != 1:
            count_text = f"Found {good} valid alternatives" if good else "Found none valid"
            message = f'"{path}" must validate one and only one schema (oneOf). {count_text}'
            yield model_causes.invalid(path, value, message)
            if not good:
                yield from failures

    return check


def _not(schema: Schema) -> AlternativesCheck:
    count = _counter([schema["not"]])

    def check(value: Any, path: str, steps: Steps) -> Iterator[Cause]:
        if count(value, path, steps)[1]:
            yield model_causes.invalid(path, value, f'"{path}" must not validate the schema (not)')

    return check


def _counter(schemas: list[Schema]) -> Callable[[Any, str, Steps], tuple[list[Cause], int]]:
    """The errors of a value for all alternatives, and how many alternatives accept it."""
    from fathom.kube.definitions.structural import Node  # noqa: PLC0415 - a schema contains schemas

    nodes = [Node(schema) for schema in schemas]

    def count(value: Any, path: str, steps: Steps) -> tuple[list[Cause], int]:
        verdicts = [_some_causes(node, value, path, steps) for node in nodes]
        return [cause for verdict in verdicts for cause in verdict], sum(not verdict for verdict in verdicts)

    return count


_KEYWORDS: Final[dict[str, Callable[[Schema], Check]]] = {
    "required": _required,
    "enum": _enum,
    "format": _format,
    "minimum": _minimum,
    "maximum": _maximum,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "maxLength": _sized("maxLength", str, lambda value, path, limit: model_causes.too_long(path, limit)),
    "minLength": _sized(
        "minLength",
        str,
        lambda value, path, limit: _wrong(path, value, f"should be at least {limit} chars long"),
    ),
    "maxItems": _sized(
        "maxItems", list, lambda value, path, limit: model_causes.too_many(path, len(value), limit)
    ),
    "minItems": _sized(
        "minItems",
        list,
        lambda value, path, limit: _wrong(path, value, f"should have at least {limit} items"),
    ),
    "maxProperties": _sized(
        "maxProperties", dict, lambda value, path, limit: model_causes.too_many(path, len(value), limit)
    ),
    "minProperties": _sized(
        "minProperties",
        dict,
        lambda value, path, limit: _wrong(path, value, f"should have at least {limit} properties"),
    ),
    "x-kubernetes-list-type": _unique,
    "x-kubernetes-embedded-resource": _embedded,
}

_ALTERNATIVES: Final[dict[str, Callable[[Schema], AlternativesCheck]]] = {
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
}
