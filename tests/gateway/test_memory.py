"""What a gateway begins with that is started again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fathom.gateway.live import Memory
from fathom.gateway.routes import RouteEndpoint, RouteListener

TABLE = (RouteListener("127.97.0.9", 80, "s/web", endpoints=(RouteEndpoint("127.64.0.1", 80, "s/a"),)),)


def test_the_last_table_is_what_it_begins_with(tmp_path: Path) -> None:
    file = tmp_path / "gateway.json"
    assert Memory(file).table() == ()
    Memory(file).keep(msgspec.json.encode(TABLE))
    assert Memory(file).table() == TABLE


def test_a_file_that_is_damaged_or_cannot_be_written_is_as_none(tmp_path: Path) -> None:
    file = tmp_path / "gateway.json"
    file.write_bytes(b"[{")
    assert Memory(file).table() == ()
    Memory(tmp_path / "no" / "such").keep(b"[]")
    assert Memory(None).table() == ()
