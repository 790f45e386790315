"""All keys of a store at one revision, read from a database file: a data directory's, or a backup."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec

from fathom.store import sqlite_file, sqlite_log
from fathom.store.protocol import Compacted, Entry, FutureRevision


class StoreContents(msgspec.Struct, frozen=True):
    entries: tuple[Entry, ...]  # In key order.
    revision: int


def read_contents(path: Path, *, revision: int | None = None) -> StoreContents:
    """`path`: a data directory, or a backup. Works while an API server writes to it. Raises Compacted and
    FutureRevision for a revision that the store no longer has, or does not have yet."""
    file = path / sqlite_file.DATABASE if path.is_dir() else path
    with closing(sqlite_file.connect(file, read_only=True)) as connection, sqlite_file.Translated(file):
        newest, floor = sqlite_log.bounds(connection)
        wanted = newest if revision is None else revision
        if wanted < floor:
            raise Compacted(floor)
        if wanted > newest:
            raise FutureRevision(newest)
        page = sqlite_log.page(connection, "/", wanted, 0, "")
    return StoreContents(page.entries, wanted)
