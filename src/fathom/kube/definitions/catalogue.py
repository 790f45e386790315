"""Reads `kinds.toml`: Kinds, defaults and subresources."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from fathom.kube.definitions.definitions import Definitions
from fathom.kube.definitions.kind import ALL_VERBS, Kind, ScalePaths
from fathom.model.column import Column

Paths = dict[str, Any]  # From a path to its default, or to '@Group'.


class Subresource(msgspec.Struct, frozen=True):
    """The object at .../NAME/SUBRESOURCE. An empty kind means the kind of the main resource."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""
    connects: bool = False  # The client gets a connection, not an object; the kind has no schema.


class Catalogue(msgspec.Struct, frozen=True):
    kinds: tuple[Kind, ...]
    bodies: tuple[Kind, ...]  # Known to the decoder, but not served.
    subresources: dict[str, Subresource]
    defaults: dict[str, Paths]  # By resource.
    default_groups: dict[str, Paths]


class _KindEntry(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    plural: str
    cluster: bool = False
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    scale: str = ""
    generation: bool = False
    selectable: tuple[str, ...] = ()
    stored_as: str = ""
    virtual: bool = False
    deprecated: str = ""
    columns: tuple[str, ...] = ()
    defaults: Paths = {}


class _GroupEntry(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    version: str
    kinds: tuple[_KindEntry, ...]


class _BodyEntry(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    group: str
    version: str


class _SubresourceEntry(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    verbs: tuple[str, ...]
    connects: bool = False


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    subresources: dict[str, _SubresourceEntry]
    defaults: dict[str, Paths]
    groups: tuple[_GroupEntry, ...]
    bodies: tuple[_BodyEntry, ...]


def load(definitions: Definitions) -> Catalogue:
    text = Path(__file__).with_name("kinds.toml").read_text(encoding="utf-8")
    document = msgspec.convert(tomllib.loads(text), _Document)
    built = [(_kind(group, entry, definitions), entry) for group in document.groups for entry in group.kinds]
    return Catalogue(
        kinds=tuple(kind for kind, _ in built),
        bodies=tuple(_body(entry, definitions) for entry in document.bodies),
        subresources={name: _subresource(entry) for name, entry in document.subresources.items()},
        defaults={kind.resource: entry.defaults for kind, entry in built if entry.defaults},
        default_groups=document.defaults,
    )


def _kind(group: _GroupEntry, entry: _KindEntry, definitions: Definitions) -> Kind:
    return Kind(
        group=group.name,
        version=group.version,
        kind=entry.kind,
        plural=entry.plural,
        singular=entry.kind.lower(),
        namespaced=not entry.cluster,
        list_kind=f"{entry.kind}List",
        short_names=entry.short,
        categories=entry.categories,
        verbs=entry.verbs,
        subresources=entry.subresources,
        scale=ScalePaths("spec.replicas", "status.replicas", entry.scale) if entry.scale else None,
        generation=entry.generation,
        columns=tuple(_column(text) for text in entry.columns),
        selectable=entry.selectable,
        definition=definitions.name_of(group.name, group.version, entry.kind),
        stored_as=entry.stored_as,
        virtual=entry.virtual,
        deprecated=entry.deprecated,
    )


def _column(text: str) -> Column:
    """'Nominated Node: string .status.nominatedNodeName|<none> wide'"""
    if text == "Age":
        return Column(name="Age", type="string", path="=age")
    name, _, column = text.partition(": ")
    kind, path, *wide = column.split()
    path, _, missing = path.partition("|")
    return Column(
        name=name,
        type=kind,
        path=path,
        missing=missing,
        format="name" if name == "Name" else "",
        priority=1 if wide == ["wide"] else 0,
    )


def _body(entry: _BodyEntry, definitions: Definitions) -> Kind:
    return Kind(
        group=entry.group,
        version=entry.version,
        kind=entry.kind,
        plural=entry.kind.lower(),
        singular=entry.kind.lower(),
        namespaced=True,
        list_kind="",
        verbs=(),
        definition=definitions.name_of(entry.group, entry.version, entry.kind),
        virtual=True,
    )


def _subresource(entry: _SubresourceEntry) -> Subresource:
    api_version, _, kind = entry.type.partition(" ")
    group, slash, version = api_version.rpartition("/")
    return Subresource(entry.verbs, group if slash else "", version, kind, connects=entry.connects)
