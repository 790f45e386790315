"""What a gateway begins with that is started again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fathom.agent.gateway.live import Memory
from fathom.agent.gateway.routes import Endpoint, Listener

TABLE = (Listener("127.97.0.9", 80, "s/web", endpoints=(Endpoint("127.64.0.1", 80, "s/a"),)),)


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
