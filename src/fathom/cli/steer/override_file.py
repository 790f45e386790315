"""An override from a file: a whole object, or one without apiVersion and metadata, which is completed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from fathom.cli.problem import Problem

Obj = dict[str, Any]

API_VERSION, KIND = "fathom.dev/v1alpha1", "SchedulerOverride"
FIELDS = frozenset({"apiVersion", "kind", "metadata", "name", "namespace", "spec", "status"})
STDIN = Path("-")
FILE_BYTES_MAX = 1 << 20  # An override has a few hundred.


def read_override(path: Path) -> tuple[Obj, list[str]]:
    """The object, and what was added or left out. Raises Problem."""
    return completed(_document(path), str(path))


def completed(document: Any, source: str) -> tuple[Obj, list[str]]:
    """`document` has a `kind` and a `spec`, and its name in `metadata` or beside them. Raises Problem."""
    if not isinstance(document, dict):
        raise Problem(f"{source} is not an object with the fields kind, metadata and spec")
    kind = document.get("kind", KIND)
    if kind != KIND:
        raise Problem(f"{source} is a {kind}, not a {KIND}")
    notes = [
        f"{name} {value} was added"
        for name, value in (("apiVersion", API_VERSION), ("kind", KIND))
        if name not in document
    ]
    meta = document.get("metadata") or {}
    if not isinstance(meta, dict):
        raise Problem(f"{source}: metadata is not an object")
    for field in ("name", "namespace"):
        if field in document and field not in meta:
            meta = {**meta, field: document[field]}
            notes.append(f"{field} was moved into metadata")
    if "status" in document:
        notes.append("status was left out, because the server writes it")
    unknown = sorted(
        set(document) - {"apiVersion", "kind", "metadata", "name", "namespace", "spec", "status"}
    )
    if unknown:
        raise Problem(f"{source}: an override has no field {', '.join(unknown)}")
    if document.get("apiVersion", API_VERSION) != API_VERSION:
        raise Problem(f"{source} has apiVersion {document['apiVersion']}, not {API_VERSION}")
    if not isinstance(document.get("spec"), dict):
        raise Problem(f"{source} has no spec")
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": document["spec"]}, notes


def _document(path: Path) -> Any:
    try:
        text = sys.stdin.read(FILE_BYTES_MAX + 1) if path == STDIN else path.read_text()[: FILE_BYTES_MAX + 1]
        if len(text) > FILE_BYTES_MAX:
            raise Problem(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Problem(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise Problem(f"{path} is nested too deeply") from error
    if len(documents) != 1:
        raise Problem(f"{path} has {len(documents)} objects: an override is created one at a time")
    return documents[0]
