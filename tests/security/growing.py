"""Documents that are good but for one long list or map: every list and every map of every kind, in turn.

A `Place` names one of them: `spec.containers[].env` of pods. `grown` makes the document with so many entries
there, all different or all equal, and everything around it as small as the server takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from tests.api.bending import good, minimal

from fathom.kube.definitions.definitions import (
    INT_OR_STRING,
    OBJECT_META,
    Definitions,
    Schema,
    ref_of,
    type_of,
)
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.model.objects import Obj

ITEM, VALUE = "[]", "{}"  # Steps of a path: into the first item of a list, into a value of a map.

# The server sets these, or drops them before anybody looks.
NOT_TAKEN = frozenset({"managedFields"})
# A schema inside of a schema looks the same again.
NESTED_MAX = 1


class Place(msgspec.Struct, frozen=True):
    kind: Kind
    steps: tuple[str, ...]
    schema: Schema  # Of the list or map itself.

    def __str__(self) -> str:
        return f"{self.kind.resource}.{self.kind.version}:{'.'.join(self.steps)}"

    @property
    def is_map(self) -> bool:
        return type_of(self.schema) == "object"

    @property
    def is_status(self) -> bool:
        return self.steps[0] == "status" and "status" in self.kind.subresources


def _roots(registry: Registry, kind: Kind) -> dict[str, Schema]:
    """What an object of the kind may hold, by name."""
    if kind.schema is None:
        roots = registry.definitions[kind.definition]["properties"]
    else:
        roots = {**kind.schema.get("properties", {}), "metadata": {"$ref": f"#/$defs/{OBJECT_META}"}}
    return {name: schema for name, schema in roots.items() if name not in {"kind", "apiVersion"}}


def places(registry: Registry, kind: Kind) -> Iterator[Place]:
    """Every list and every map of one kind."""
    for name, schema in _roots(registry, kind).items():
        yield from _places_in(registry.definitions, kind, (name,), schema, ())


def _places_in(
    definitions: Definitions, kind: Kind, steps: tuple[str, ...], schema: Schema, inside: tuple[str, ...]
) -> Iterator[Place]:
    ref = ref_of(schema)
    if inside.count(ref) > NESTED_MAX or steps[-1] in NOT_TAKEN:
        return
    schema = definitions.resolve(schema)
    inside = (*inside, ref) if ref else inside
    for name, inner in (schema.get("properties") or {}).items():
        yield from _places_in(definitions, kind, (*steps, name), inner, inside)
    if type_of(schema) == "array":
        yield Place(kind, steps, schema)
        yield from _places_in(definitions, kind, (*steps, ITEM), schema["items"], inside)
    elif schema.get("additionalProperties"):
        yield Place(kind, steps, schema)
        if isinstance(schema["additionalProperties"], dict):
            yield from _places_in(definitions, kind, (*steps, VALUE), schema["additionalProperties"], inside)


def base(registry: Registry, kind: Kind, name: str) -> Obj:
    """An object that the server takes, also of kinds that only have a schema."""
    if kind.schema is None:
        return good(registry, kind, name)
    made: Obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"name": name}}
    return made | {
        field: minimal(registry.definitions, kind.schema["properties"][field])
        for field in kind.schema.get("required", ())
    }


def set_at(definitions: Definitions, place: Place, obj: Obj, value: Any) -> None:
    """Put the value there; what is missing on the way becomes the least that its definition asks for."""
    kind = place.kind
    schema: Schema = definitions[kind.definition] if kind.schema is None else kind.schema
    here: Any = obj
    for at, step in enumerate(place.steps):
        schema = definitions.resolve(schema)
        inner = _inner(schema, step) if step != "metadata" or at else {"$ref": f"#/$defs/{OBJECT_META}"}
        if at == len(place.steps) - 1:
            if isinstance(here, list):
                here[:] = [value]
            else:
                here[_key(step)] = value
            return
        here, schema = _stepped(definitions, here, step, inner), inner


def _key(step: str) -> Any:
    return {ITEM: 0, VALUE: "x"}.get(step, step)


def _inner(schema: Schema, step: str) -> Schema:
    if step == ITEM:
        return schema["items"]  # type: ignore[no-any-return]
    return schema["additionalProperties"] if step == VALUE else schema["properties"][step]  # type: ignore[no-any-return]


def _stepped(definitions: Definitions, here: Any, step: str, inner: Schema) -> Any:
    if isinstance(here, list):
        if not here:
            here.append(_entry(definitions, inner, 0, ""))
        return here[0]
    key = _key(step)
    if not here.get(key):
        here[key] = (
            [] if type_of(definitions.resolve(inner)) == "array" else _entry(definitions, inner, 0, "")
        )
    return here[key]


def entries(definitions: Definitions, place: Place, count: int, *, equal: bool, first: int = 0) -> Any:
    """The grown value itself, numbered from `first`. A map's keys always differ; its values may be equal."""
    numbers = range(first, first + count)
    if place.is_map:
        values = place.schema["additionalProperties"]
        values = values if isinstance(values, dict) else {"type": "string"}
        return {
            _name_for(place, at): _entry(definitions, values, first if equal else at, "") for at in numbers
        }
    items = place.schema["items"]
    return [_entry(definitions, items, first if equal else at, place.steps[-1]) for at in numbers]


def _name_for(place: Place, at: int) -> str:
    """A key that the map takes: amounts are of resources, which are known or have a domain."""
    field = place.steps[-1]
    if field in _AMOUNTS:
        return f"e.com/x{at}"
    return f"x{at}"


_AMOUNTS = frozenset(
    {"limits", "requests", "capacity", "allocatable", "hard", "overhead", "default", "defaultRequest",
     "min", "max", "maxLimitRequestRatio", "allocatedResources", "used"}
)  # fmt: skip

# Fields that are no free text, and what stands in them.
_KNOWN: dict[str, Any] = {
    "operator": "Exists",
    "effect": "NoSchedule",
    "protocol": "TCP",
    "apiGroup": "",
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "type": "Ready",
    "status": "True",
    "whenUnsatisfiable": "DoNotSchedule",
    "topologyKey": "zone",
    "maxSkew": 1,
    "weight": 1,
    "pathType": "Prefix",
    "conditionType": "example.com/x",
    "signerName": "example.com/x",
    "reason": "Because",
    "lastTransitionTime": "2024-01-01T00:00:00Z",
    "addressType": "IPv4",
    "resizePolicy": "NotRequired",
    "restartPolicy": "NotRequired",
    "resource": "limits.cpu",
    "driver": "example.com",
    "fieldPath": "metadata.name",
    "signal": "SIGTERM",
}
_ADDRESSES = frozenset(
    {"ip", "ips", "addresses", "podIPs", "hostIPs", "nameservers", "externalIPs", "clusterIPs"}
)
_RANGES = frozenset({"cidr", "podCIDRs", "except", "loadBalancerSourceRanges", "cidrs"})
_PATHS = frozenset({"mountPath", "devicePath", "nonResourceURLs"})
_KEYS = frozenset({"key", "name", "ip", "uid", "port", "containerPort", "values", "topologyKey", "type"})


def _entry(definitions: Definitions, schema: Schema, at: int, field: str) -> Any:
    """The least of a schema, told from the others by its number in every text and every key."""
    if ref_of(schema) == INT_OR_STRING:
        return at % 60_000 + 1
    resolved = definitions.resolve(schema)
    kind = type_of(resolved)
    if kind == "string":
        return _text(resolved, at, field)
    if kind == "integer":
        return at % 60_000 + 1
    properties = resolved.get("properties")
    if not properties:
        return minimal(definitions, schema)
    wanted = {*resolved.get("required", ()), *(_KEYS & properties.keys())}
    if "values" in wanted:
        wanted.remove("values")
    return {
        name: _KNOWN[name] if name in _KNOWN else _entry(definitions, properties[name], at, name)
        for name in sorted(wanted)
        if not (
            name in _KNOWN and type_of(definitions.resolve(properties[name])) not in {"string", "integer"}
        )
    }


def _text(schema: Schema, at: int, field: str) -> str:
    if schema.get("enum"):
        return str(schema["enum"][0])
    if schema.get("format") in {"byte", "date-time"}:
        return "eA==" if schema["format"] == "byte" else "2024-01-01T00:00:00Z"
    if field in _ADDRESSES:
        return f"10.{at >> 16 & 255}.{at >> 8 & 255}.{at & 255}"
    if field in _RANGES:
        return f"10.{at >> 8 & 255}.{at & 255}.0/24"
    return f"/x{at}" if field in _PATHS else f"x{at}"


def texts(registry: Registry, kind: Kind) -> Iterator[Place]:
    """Every text of one kind that stands in no list or map of texts; `schema` is the text's own."""
    for name, schema in _roots(registry, kind).items():
        yield from _texts_in(registry.definitions, kind, (name,), schema, ())


def _texts_in(
    definitions: Definitions, kind: Kind, steps: tuple[str, ...], schema: Schema, inside: tuple[str, ...]
) -> Iterator[Place]:
    ref = ref_of(schema)
    if inside.count(ref) > NESTED_MAX or steps[-1] in NOT_TAKEN:
        return
    schema = definitions.resolve(schema)
    inside = (*inside, ref) if ref else inside
    if type_of(schema) == "string":
        yield Place(kind, steps, schema)
    for name, inner in (schema.get("properties") or {}).items():
        yield from _texts_in(definitions, kind, (*steps, name), inner, inside)
    for word, step in (("items", ITEM), ("additionalProperties", VALUE)):
        if isinstance(schema.get(word), dict):
            yield from _texts_in(definitions, kind, (*steps, step), schema[word], inside)
