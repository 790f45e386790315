"""What recording costs can be measured anywhere, without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.cli.main import run


def test_every_figure_is_there_and_recording_costs_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "record", "--inputs", "2000", "--data", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"]["inputs"] == 2000
    assert list(tmp_path.iterdir()) == []
    figures = {name: value for name, value in document.items() if name.endswith(("_us", "_bytes"))}
    assert sorted(figures) == [
        "append_bytes",
        "append_us",
        "ask_bytes",
        "ask_us",
        "crossing_recorded_us",
        "crossing_us",
        "journal_bytes",
        "journal_us",
        "packed_bytes",
        "replay_us",
    ]
    assert min(figures.values()) > 0
    assert figures["packed_bytes"] < figures["append_bytes"] / 4


def test_a_person_reads_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "record", "--inputs", "1000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("recording, 1,000 inputs of ")
    assert [line[:20].strip() for line in lines[2:]] == [
        "tape, an input",
        "tape, a request",
        "seam crossing",
        "the same, recorded",
        "journal, a decision",
        "replay, an input",
    ]
