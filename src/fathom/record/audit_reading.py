"""Reads the audit log: which user wrote which field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from fathom.model.audit import AuditEntry
from fathom.model.fields import steps_of, touching
from fathom.record.audit import FILE

_decode = msgspec.json.Decoder(AuditEntry).decode


class FieldWrite(msgspec.Struct, frozen=True):
    """One write of a field. `plugins` is not empty where admission, not the caller, put the value there."""

    entry: AuditEntry
    paths: tuple[str, ...]  # The changed paths at, above or below the field.
    certain: bool  # Whether a path is at or below the field; else only something above it changed.
    plugins: tuple[str, ...] = ()


def files(directory: Path) -> list[Path]:
    """The log's files, oldest first."""
    unsorted = [path for path in directory.glob(f"{FILE}.*") if path.suffix[1:].isdecimal()]
    rotated = sorted(unsorted, key=lambda path: -int(path.suffix[1:]))
    newest = directory / FILE
    return [*rotated, newest] if newest.exists() else rotated


def read_entries(
    directory: Path,
    *,
    resource: str = "",
    namespace: str | None = None,
    name: str = "",
    field_path: str = "",
    since: str = "",
) -> Iterator[AuditEntry]:
    """Entries in the order they were written. `since` is an RFC 3339 time in UTC. Lines truncated by a crash
    are skipped, and so is a file that is rotated away during the read."""
    # Most lines are about other objects: searching the bytes for the name is far cheaper than decoding them.
    clue = msgspec.json.encode(name) if name else b""
    for path in files(directory):
        for line in _lines(path):
            if clue not in line:
                continue
            entry = entry_of(line)
            if entry is not None and _is_wanted(entry, resource, namespace, name, field_path, since):
                yield entry


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except FileNotFoundError:
        return


def entry_of(line: bytes) -> AuditEntry | None:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_wanted(  # noqa: PLR0917 - the filters as they came
    entry: AuditEntry, resource: str, namespace: str | None, name: str, field_path: str, since: str
) -> bool:
    if resource and entry.resource != resource:
        return False
    if namespace is not None and entry.namespace != namespace:
        return False
    if (name and entry.name != name) or entry.time < since:
        return False
    return not field_path or any(touching(entry.changed, field_path))


def writers_of(
    entries: Iterable[AuditEntry], *, resource: str, namespace: str, name: str, field_path: str
) -> tuple[FieldWrite, ...]:
    """The writes of a field of one object, oldest first. A creation may have written every field, so it is
    included. Refused and dry-run writes changed nothing and do not count."""
    writes = []
    for entry in entries:
        if (entry.resource, entry.namespace, entry.name) != (resource, namespace, name) or not entry.wrote:
            continue
        paths = tuple(touching(entry.changed, field_path))
        if paths:
            certain = any(_is_within(path, field_path) for path in paths)
            writes.append(FieldWrite(entry, paths, certain, _plugins(entry, field_path)))
    return tuple(writes)


def _is_within(path: str, field_path: str) -> bool:
    field = steps_of(field_path)
    return steps_of(path)[: len(field)] == field


def _plugins(entry: AuditEntry, field_path: str) -> tuple[str, ...]:
    return tuple(
        verdict.plugin for verdict in entry.admission if next(touching(verdict.mutated, field_path), None)
    )
