"""Backing up, restoring and verifying from the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fathom.cli.main import run
from fathom.model.body import Body
from fathom.store.open import open_store
from fathom.store.protocol import Committed, Put


async def _fill(data: Path) -> None:
    store = await open_store(f"sqlite:{data}")
    for number in range(3):
        body = Body({"kind": "ConfigMap", "n": number})
        assert isinstance(await store.commit((), (Put(f"/k/{number}", body),)), Committed)
    await store.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    asyncio.run(_fill(directory))
    return directory


def test_a_backup_can_be_verified_and_restored_elsewhere(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, other = tmp_path / "copy.db", tmp_path / "other"
    assert run(["store", "verify", str(data)]) == 0
    assert run(["store", "backup", str(copy), "--data", str(data)]) == 0
    assert run(["store", "verify", str(copy)]) == 0
    assert run(["store", "restore", str(copy), "--data", str(other)]) == 0
    assert run(["store", "verify", str(other)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert [line.split(" ")[0] for line in shown.out.splitlines()] == [
        "sound:",
        "backed",
        "sound:",
        "restored",
        "sound:",
    ]
    assert all(": 3 objects, " in line for line in shown.out.splitlines())


def test_the_name_of_an_answer_is_its_file(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, other = tmp_path / "copy.db", tmp_path / "other"
    assert run(["store", "backup", str(copy), "--data", str(data), "-o", "name"]) == 0
    assert run(["store", "restore", str(copy), "--data", str(other), "-o", "name"]) == 0
    assert run(["store", "verify", str(copy), "-o", "name"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [Path(line).relative_to(tmp_path).parts[0] for line in printed] == [
        copy.name,
        other.name,
        copy.name,
    ]


def test_damage_is_told_and_answers_no(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = next(path for path in data.iterdir() if path.suffix == ".db")
    content = bytearray(database.read_bytes())
    at = content.rindex(b'"n":1')
    content[at : at + 5] = b'"n":7'
    database.write_bytes(content)
    assert run(["store", "verify", str(data)]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"damaged: {database}"
    assert "checksum" in shown[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "gone"],
        ["backup", "copy.db", "--data", "gone"],
        ["restore", "gone.db", "--data", "new"],
        ["backup"],
        ["verify", "--data", "x"],
    ],
)
def test_what_is_not_there_is_one_line_and_exit_code_2(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["store", *arguments]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "Traceback" not in shown.err
    assert "FATHOM_DEBUG" not in shown.err


def test_a_backup_never_replaces_a_file(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("precious")
    assert run(["store", "backup", str(kept), "--data", str(data)]) == 2
    assert run(["store", "restore", str(kept), "--data", str(data)]) == 2
    assert kept.read_text() == "precious"
    assert capsys.readouterr().err.count("already") == 2
