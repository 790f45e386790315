"""The documents of `--manifest`, and which of them are applied before the program starts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from fathom.model.objects import Obj, metadata

DEFINITION = "CustomResourceDefinition"
# What others need: never applied while things go wrong, unless --during names it.
PREPARATIONS = frozenset(
    (DEFINITION, "Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
)


class BadManifest(Exception):
    """One line: which file, and what is wrong with it."""


class Manifests(msgspec.Struct, frozen=True):
    before: tuple[Obj, ...]  # Applied before the program starts: definitions, Namespaces, settings.
    during: tuple[Obj, ...]  # Applied while things go wrong, in this order, and deleted later.


def read_manifests(files: Iterable[Path], during: Iterable[Path] = ()) -> Manifests:
    """Of `files`, objects of the kinds that they define are for `during`, as is all of the files `during`.
    Without any such object, all are that nothing else needs. Raises BadManifest."""
    documents = [obj for file in files for obj in _documents(file)]
    named = [obj for file in during for obj in _documents(file)]
    defined = {_defines(obj) for obj in documents if obj["kind"] == DEFINITION}
    later = [obj for obj in documents if _kind(obj) in defined]
    if not later and not named:
        later = [obj for obj in documents if obj["kind"] not in PREPARATIONS]
    before = [obj for obj in documents if obj not in later]
    return Manifests(tuple(sorted(before, key=_order)), (*later, *named))


def _documents(file: Path) -> list[Obj]:
    try:
        documents = [obj for obj in yaml.safe_load_all(file.read_text()) if obj is not None]
    except OSError as error:
        raise BadManifest(f"{file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadManifest(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    listed = [item for obj in documents for item in _items(obj)]
    for obj in listed:
        if not isinstance(obj, dict) or not {"apiVersion", "kind", "metadata"} <= obj.keys():
            raise BadManifest(f"{file}: a document has no apiVersion, kind or metadata")
        if not isinstance(obj["metadata"], dict) or not metadata(obj).get("name"):
            raise BadManifest(f"{file}: a {obj['kind']} has no metadata.name")
    return listed


def _items(obj: object) -> list[Obj]:
    if isinstance(obj, dict) and obj.get("kind") == "List":
        return list(obj.get("items") or ())
    return [obj]  # type: ignore[list-item]  # checked by the caller


def _order(obj: Obj) -> int:
    """Definitions and Namespaces first: others need them."""
    return 0 if obj["kind"] in {DEFINITION, "Namespace"} else 1


def _kind(obj: Obj) -> tuple[str, str]:
    return str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"])


def _defines(definition: Obj) -> tuple[str, str]:
    spec = definition.get("spec") or {}
    return str(spec.get("group")), str((spec.get("names") or {}).get("kind"))
