"""The built-in kinds' definitions, from the installed package `kubernetes-validate`.

One JSON file of 1.8 MB holds every type of Kubernetes' API with its patch merge keys, list map keys and
descriptions. Only the file is used: importing the package would load a YAML and a schema library.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any, Final

import msgspec

Schema = dict[str, Any]

QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
MICRO_TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"

_REF: Final = "#/$defs/"
_RELEASE: Final = re.compile(r"v(\d+)\.(\d+)\.(\d+)-local$")


class DefinitionsMissing(Exception):
    """The definitions were not found: a broken installation, reported in one line at start."""


class Definitions:
    """All definitions by name. The dictionaries are shared: never change them."""

    def __init__(self, schemas: dict[str, Schema], release: str) -> None:
        self.schemas = schemas
        self.release = release  # 'v1.37.0': for /version and document hashes.
        self._names: dict[tuple[str, str, str], str] | None = None

    def __getitem__(self, name: str) -> Schema:
        return self.schemas[name]

    def __contains__(self, name: str) -> bool:
        return name in self.schemas

    def name_of(self, group: str, version: str, kind: str) -> str:
        """The definition's name for a kind; '' if there is none."""
        if self._names is None:
            self._names = {gvk: name for name, schema in self.schemas.items() for gvk in gvks_of(schema)}
        return self._names.get((group, version, kind), "")

    def resolve(self, schema: Schema) -> Schema:
        """The schema itself, or what it refers to."""
        name = ref_of(schema)
        return self.schemas[name] if name else schema

    def reachable(self, *names: str) -> list[str]:
        """The named definitions and all that they refer to, sorted."""
        reached: dict[str, None] = {}
        waiting = [name for name in names if name in self.schemas]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached[name] = None
                waiting.extend(refs_in(self.schemas[name]))
        return sorted(reached)


def load() -> Definitions:
    """Read the newest release's definitions that are installed."""
    root = _installed()
    releases = [(tuple(map(int, match.groups())), path) for path in root.iterdir()
                if (match := _RELEASE.match(path.name))]  # fmt: skip
    if not releases:
        raise DefinitionsMissing(f"no Kubernetes definitions in {root}: reinstall kubernetes-validate")
    numbers, newest = max(releases)
    document = msgspec.json.decode((newest / "_definitions.json").read_bytes())
    return Definitions(document["$defs"], "v" + ".".join(map(str, numbers)))


def _installed() -> Path:
    spec = importlib.util.find_spec("kubernetes_validate")
    if spec is None or not spec.submodule_search_locations:
        raise DefinitionsMissing("the package kubernetes-validate is not installed")
    return Path(spec.submodule_search_locations[0]) / "kubernetes-json-schema"


def gvks_of(schema: Schema) -> list[tuple[str, str, str]]:
    """(group, version, kind) of a top-level definition. DeleteOptions has one per group and version."""
    listed = schema.get("x-kubernetes-group-version-kind", ())
    return [(gvk["group"], gvk["version"], gvk["kind"]) for gvk in listed]


def ref_of(schema: Schema) -> str:
    """The name of the definition that a schema refers to; '' if it is one itself."""
    ref: str = schema.get("$ref", "")
    return ref.removeprefix(_REF)


def type_of(schema: Schema) -> str:
    """The one type besides null; '' where the definition has none."""
    kind = schema.get("type", "")
    return kind if isinstance(kind, str) else next(name for name in kind if name != "null")


def dropped_when_empty(schema: Schema, field: str) -> type | None:
    """`list` or `dict` for a field that is not stored when empty, as with Go's `omitempty`: every list and
    map that the definition does not require. None for all other fields."""
    inner = schema["properties"][field]
    if field in schema.get("required", ()) or ref_of(inner):
        return None
    if type_of(inner) == "array":
        return list
    return dict if type_of(inner) == "object" and inner.get("additionalProperties") else None


def refs_in(schema: Schema) -> list[str]:
    """The names of the definitions that one definition refers to directly."""
    names = [ref] if (ref := ref_of(schema)) else []
    for inner in schema.get("properties", {}).values():
        names.extend(refs_in(inner))
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            names.extend(refs_in(schema[word]))
    return names
