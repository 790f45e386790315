"""Objects in files: YAML or JSON, several in one, directories, standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fathom.cli.problem import Problem
from fathom.kube.definitions.parse import MalformedBody, plain
from fathom.kube.definitions.yaml import from_yaml

Obj = dict[str, Any]

STDIN = "-"
SUFFIXES = frozenset({".yaml", ".yml", ".json"})
FILE_BYTES_MAX = 64 << 20
_BETWEEN = re.compile(rb"^---(?:[ \t][^\n]*)?$", re.MULTILINE)


class Manifest(msgspec.Struct, frozen=True):
    """One object, and where it was read."""

    obj: Obj
    source: str  # 'web.yaml', 'web.yaml, document 2'


def read_manifests(names: Sequence[str], *, recursive: bool = False) -> list[Manifest]:
    """Raises Problem."""
    if not names:
        raise Problem("name the files: -f FILE, -f DIRECTORY, or -f - for standard input")
    read = [
        manifest
        for name in names
        for source, raw in _contents(name, recursive=recursive)
        for manifest in manifests_in(raw, source)
    ]
    if not read:
        raise Problem(f"there are no objects in {', '.join(names)}")
    return read


def manifests_in(raw: bytes, source: str) -> Iterator[Manifest]:
    """Raises Problem."""
    if raw.lstrip()[:1] == b"{":
        yield from _expanded(_read(plain, raw, source), source)
        return
    documents = _BETWEEN.split(raw)
    texts = [text for text in documents if text.strip()]
    for number, text in enumerate(texts, 1):
        where = source if len(texts) == 1 else f"{source}, document {number}"
        document = _read(from_yaml, text, where)
        if document is not None:  # Comments alone.
            yield from _expanded(document, where)


def content_of(raw: bytes, source: str) -> Any:
    """JSON or YAML of any shape. Raises Problem."""
    return _read(plain if raw.lstrip()[:1] in (b"{", b"[") else from_yaml, raw, source)


def _read(reader: Any, raw: bytes, source: str) -> Any:
    try:
        return reader(raw)
    except MalformedBody as error:
        raise Problem(f"{source}: {error}") from error


def _expanded(document: Any, source: str) -> Iterator[Manifest]:
    """A List stands for its items."""
    if not isinstance(document, dict):
        raise Problem(f"{source} is not an object with the fields apiVersion, kind and metadata")
    if document.get("kind") == "List" and isinstance(document.get("items"), list):
        for number, item in enumerate(document["items"], 1):
            yield from _expanded(item, f"{source}, item {number}")
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise Problem(f"{source}: {field} is missing")
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        raise Problem(f"{source}: metadata.name is missing")
    yield Manifest(document, source)


def _contents(name: str, *, recursive: bool) -> Iterator[tuple[str, bytes]]:
    if name == STDIN:
        yield "standard input", _limited(sys.stdin.buffer.read(FILE_BYTES_MAX + 1), name)
        return
    if "://" in name:
        raise Problem(f"{name} is an address: download it first, look at it, and give the file")
    path = Path(name)
    try:
        files = _files(path, recursive=recursive) if path.is_dir() else [path]
        for file in files:
            with file.open("rb") as opened:
                yield str(file), _limited(opened.read(FILE_BYTES_MAX + 1), str(file))
    except OSError as error:
        raise Problem(f"cannot read {error.filename or name}: {error.strerror}") from error


def _files(directory: Path, *, recursive: bool) -> list[Path]:
    listed = directory.rglob("*") if recursive else directory.iterdir()
    return sorted(path for path in listed if path.suffix in SUFFIXES and path.is_file())


def _limited(raw: bytes, name: str) -> bytes:
    if len(raw) > FILE_BYTES_MAX:
        raise Problem(f"{name} is larger than {FILE_BYTES_MAX >> 20} MiB")
    return raw
