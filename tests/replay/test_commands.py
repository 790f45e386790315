"""`fathom record` and `fathom replay`, as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.replay.toys import COUNT, recorded

from fathom.cli.main import run
from fathom.record.ring import Ring
from fathom.record.segment import TAPE
from fathom.record.tape import HEAD, Record
from fathom.record.tape_list import directory_of


def kept(data: Path, records: list[Record], process: str = "toys") -> None:
    """As a DiskTape would have written them."""
    ring = Ring(directory_of(data, process), TAPE, budget_bytes=1 << 20)
    ring.begin()
    for record in records:
        head = HEAD.pack(record.kind, 0, record.status, record.number, record.now_ns, record.checksum)
        ring.append(head + record.payload)
    ring.close()


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_recording_is_shown_exported_and_reproduced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = recorded()
    kept(tmp_path, records)
    assert run(["record", "status", "--data", str(tmp_path)]) == 0
    head, row = said(capsys)
    assert head.split() == ["PROCESS", "RUN", "STATE", "BEGAN", "LASTED", "SIZE"]
    assert row.split()[:3] == ["toys", "1", "ended"]
    assert run(["record", "status", "--data", str(tmp_path), "-o", "wide"]) == 0
    assert said(capsys)[1].endswith("tests.replay.toys:begin")
    assert run(["record", "status", "--data", str(tmp_path), "-o", "name"]) == 0
    assert said(capsys) == ["toys"]
    file = tmp_path / "toys.tape"
    assert run(["record", "export", str(file), "--data", str(tmp_path)]) == 0
    assert said(capsys) == [f"exported run 1 of toys to {file}: 0.0 MB"]
    assert run(["replay", str(file), "--trust", "tests.replay.toys"]) == 0
    (line, *notes) = said(capsys)
    inputs = len(records) - COUNT
    assert line.startswith(f"reproduced: {inputs} inputs, {COUNT} requests ({COUNT} writes) in 0.")
    assert notes[0].startswith("note: recorded by fathom ?")


def test_status_and_replay_have_documents_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "status", "--data", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == []
    kept(tmp_path, recorded())
    assert run(["record", "status", "--data", str(tmp_path), "--json"]) == 0
    (tape,) = json.loads(capsys.readouterr().out)
    assert (tape["process"], tape["recording"], len(tape["runs"])) == ("toys", False, 1)
    assert run(["replay", str(directory_of(tmp_path, "toys")), "--trust", "tests", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["matched"], document["asks"], document["first_divergence"]) == (True, COUNT, None)


def test_nothing_recorded_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "status", "--data", str(tmp_path)]) == 1
    told = f"there are no tapes in {tmp_path}: --data names the data directory of a cluster"
    assert said(capsys) == [told]


def test_what_is_recorded_is_looked_for_beside_the_kubeconfig_and_then_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "elsewhere/kubeconfig")
    assert run(["record", "status"]) == 2
    assert "recordings are read where the data directory is" in capsys.readouterr().err
    kept(tmp_path / ".fathom", recorded(), "here")
    assert run(["record", "status"]) == 0
    assert said(capsys)[1].startswith("here ")
    kept(tmp_path / "elsewhere", recorded(), "there")
    assert run(["record", "export", "one.tape"]) == 0
    assert said(capsys)[0].startswith("exported run 1 of there to one.tape: ")


def test_a_difference_is_told_and_the_answer_is_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, recorded(leak="random"))
    assert run(["replay", str(directory_of(tmp_path, "toys")), "--trust", "tests"]) == 1
    lines = said(capsys)
    at = COUNT // 2
    assert lines[0].startswith("NOT reproduced after ")
    assert lines[1] == f"request {at + 1}: the replay sent a different request"
    assert lines[2].startswith(f"  live:   POST /things/{at}, ")
    assert lines[3].startswith(f"  replay: POST /things/{at}, ")
    assert lines[4].strip() == "x-toy: 1"
    assert lines[6].startswith("  after input ")
    assert ", TICK, at 20" in lines[6]


def test_code_that_a_tape_names_is_not_run_without_being_agreed_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = recorded(controllers=["fathom.bench.record:begin", "antigravity:fly"])
    kept(tmp_path, records)
    tape = str(directory_of(tmp_path, "toys"))
    assert run(["replay", tape]) == 2
    complaint = capsys.readouterr().err
    assert complaint.endswith("to allow that, add --trust antigravity --trust tests.replay.toys\n")
    assert run(["replay", tape, "--trust", "tests", "--trust", "anti"]) == 2
    assert capsys.readouterr().err.endswith("add --trust antigravity\n")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"#!/bin/sh\necho this is something else entirely", "is not a fathom recording"),
    ],
)
def test_what_is_no_tape_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, complaint: str
) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    assert run(["replay", str(file)]) == 2
    assert capsys.readouterr().err == f"fathom: error: {file} {complaint}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["replay", "gone.tape"],
            "gone.tape does not exist: name a file of `fathom record export`, or a failing run of"
            " `fathom sim`",
        ),
        (["replay", "."], "there is no tape in ."),
        (["replay", ".", "--run", "7"], "there is no run 7 in ."),
        (
            ["record", "export", "x.tape", "--data", "gone"],
            "gone does not exist, and recordings are read where the data directory is: run `fathom record` on"
            " the machine of the cluster, with --data DIR",
        ),
    ],
)
def test_what_is_not_there_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    assert capsys.readouterr().err == f"fathom: error: {complaint}\n"


def test_code_that_is_not_installed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (start, *rest) = recorded(count=1)
    strange = start.payload.replace(b"tests.replay.toys", b"fathom.nowhere")
    kept(tmp_path, [msgspec.structs.replace(start, payload=strange), *rest])
    assert run(["replay", str(directory_of(tmp_path, "toys"))]) == 2
    assert "fathom.nowhere:begin cannot be loaded" in capsys.readouterr().err
