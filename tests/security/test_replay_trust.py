"""Files that are sent around: recorded runs and tapes. What they name or carry is not run unless their reader
says so, and they cannot take more memory than a recording may have."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.replay.test_commands import kept
from tests.replay.toys import COUNT, recorded
from tests.sim.test_cli import OWN

from fathom.cli.main import run
from fathom.record.segment import HEADER_BYTES, TAPE, ZLIB, SegmentHeader
from fathom.record.tape import Record
from fathom.record.tape_list import directory_of
from fathom.seams.process import Birth
from fathom.sim.report.artifact_head import patch_of

EVIL = "from pathlib import Path\nPath({mark!r}).touch()\n"


@pytest.fixture(scope="module")
def broken_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run that was kept, as a document."""
    folder = tmp_path_factory.mktemp("runs")
    own = folder / "own.py"
    own.write_text(OWN)
    assert run(["sim", "run", f"{own}:mine", "--seed", "1", "--out", str(folder / "out")]) == 1
    (file,) = (folder / "out").iterdir()
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def written(document: dict[str, Any], file: Path) -> Path:
    file.write_text(json.dumps(document, indent=1))
    return file


def evil(folder: Path) -> tuple[Path, Path]:
    """A file of code, and the mark that it leaves when it is run."""
    mark, code = folder / "was-run", folder / "evil.py"
    code.write_text(EVIL.format(mark=str(mark)))
    return code, mark


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert run(list(words)) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "FATHOM_DEBUG" not in shown.err
    return shown.err


@pytest.mark.parametrize("command", [("replay",), ("sim", "shrink")])
def test_a_run_does_not_load_the_scenario_file_that_it_names(
    broken_run: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    code, mark = evil(tmp_path)
    document = {**broken_run, "plan": {**broken_run["plan"], "scenario": f"{code}:mine"}}
    file = str(written(document, tmp_path / "run.json"))
    told = refusal(capsys, *command, file)
    assert str(code) in told
    assert "--trust scenario" in told
    assert not mark.exists()
    run([*command, file, "--trust", "scenario"])
    assert mark.exists()


@pytest.mark.parametrize("command", [("replay",), ("sim", "shrink")])
def test_a_run_does_not_load_a_patch_though_its_hash_is_right(
    broken_run: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    code, mark = evil(tmp_path)
    plan = {**broken_run["plan"], "scenario": "shared-counter"}
    document = {**broken_run, "plan": plan, "patch": msgspec.to_builtins(patch_of(code))}
    file = str(written(document, tmp_path / "run.json"))
    told = refusal(capsys, *command, file)
    assert str(code) in told
    assert "--trust patch" in told
    assert not mark.exists()


def test_agreeing_to_one_of_both_runs_neither(
    broken_run: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, mark = evil(tmp_path)
    plan = {**broken_run["plan"], "scenario": f"{code}:mine"}
    document = {**broken_run, "plan": plan, "patch": msgspec.to_builtins(patch_of(code))}
    file = str(written(document, tmp_path / "run.json"))
    for trusted in ("patch", "scenario"):
        refusal(capsys, "replay", file, "--trust", trusted)
        assert not mark.exists()


def test_a_built_in_scenario_needs_no_trust(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "run", "shared-counter", "--seed", "1", "--json"]) == 0
    from fathom.sim.report import run_report
    from fathom.sim.report.artifact import artifact_of, write
    from fathom.sim.scenarios import find
    from fathom.sim.world.scenario import plan_of

    scenario = find("shared-counter")
    report, telling = run_report.report(scenario, plan_of(scenario, "1", "random"))
    write(artifact_of(report, telling), tmp_path / "run.json")
    capsys.readouterr()
    assert run(["replay", str(tmp_path / "run.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reproduced"]


def test_a_patch_that_the_user_names_is_used_with_a_tape(tmp_path: Path) -> None:
    """It is on the command line: nothing in the tape has named it."""
    code, mark = evil(tmp_path)
    kept(tmp_path, recorded())
    tape = str(directory_of(tmp_path, "toys"))
    replay = ["replay", tape, "--trust", "tests", "--patch", str(code)]
    assert run(replay) == 2  # It changes no decider, which is refused after it was loaded.
    assert mark.exists()


# Tapes.


def birth(records: list[Record], **changes: Any) -> list[Record]:
    start, *rest = records
    changed = msgspec.structs.replace(msgspec.json.decode(start.payload, type=Birth), **changes)
    return [msgspec.structs.replace(start, payload=msgspec.json.encode(changed)), *rest]


@pytest.mark.parametrize(
    "entry",
    [
        "fathom.cli.main:run",
        "fathom.cli.entry:main",
        "fathom.supervise:python",
        "fathom.sim.search.patches:load",
        "fathom.control.process:import_module",
        "fathom.seams.process:begin.__globals__",
    ],
)
def test_an_entry_that_is_no_process_of_fathoms_is_not_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: str
) -> None:
    kept(tmp_path, birth(recorded(count=1), entry=entry))
    told = refusal(capsys, "replay", str(directory_of(tmp_path, "toys")))
    assert entry in told


@pytest.mark.parametrize(
    "controllers",
    [
        ["fathom.cli.main:run"],
        ["fathom.sim.plugin:pytest"],
        {"antigravity:fly": 1},
        "antigravity:fly",
    ],
)
def test_a_controller_that_is_none_of_fathoms_is_not_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], controllers: Any
) -> None:
    options = {"controllers": controllers, "target": "http://127.0.0.1:1", "who": "x"}
    kept(tmp_path, birth(recorded(count=1), entry="fathom.control.process:begin", options=options))
    refusal(capsys, "replay", str(directory_of(tmp_path, "toys")))


def test_a_tape_that_ends_before_its_process_says_up_to_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = recorded()
    kept(tmp_path / "whole", records)
    kept(tmp_path / "cut", records[: len(records) // 2])
    whole, cut = (str(directory_of(tmp_path / name, "toys")) for name in ("whole", "cut"))
    assert run(["replay", whole, "--trust", "tests", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["matched"], found["complete"]) == (True, True)
    assert run(["replay", cut, "--trust", "tests", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["matched"], found["complete"]) == (True, False)
    assert 0 < found["asks"] < COUNT
    upto = found["up_to"]
    assert upto["input"] == found["inputs"]
    assert upto["time"].startswith("20")
    assert run(["replay", cut, "--trust", "tests"]) == 0
    shown = capsys.readouterr().out
    assert f"up to input {upto['input']:,} at {upto['time']}" in shown.splitlines()[0]
    assert run(["replay", whole, "--trust", "tests"]) == 0
    assert "up to input" not in capsys.readouterr().out


def test_an_exported_tape_that_was_cut_within_a_record_says_up_to_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, recorded())
    file = tmp_path / "toys.tape"
    assert run(["record", "export", str(file), "--data", str(tmp_path)]) == 0
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) * 2 // 3])
    capsys.readouterr()
    assert run(["replay", str(file), "--trust", "tests", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["complete"] is False


# What cannot be held in memory.


def test_a_packed_segment_cannot_become_larger_than_a_segment_may_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packer = zlib.compressobj(1)
    zeros = bytes(1 << 20)
    body = b"".join(packer.compress(zeros) for _ in range(1024)) + packer.flush()
    file = tmp_path / "bomb.tape"
    file.write_bytes(SegmentHeader(TAPE, 1, 0, 1, ZLIB, len(body)).encode() + body)
    assert "larger than" in refusal(capsys, "replay", str(file))


def test_a_segment_that_claims_more_bytes_than_there_are_is_read_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "liar.tape"
    file.write_bytes(SegmentHeader(TAPE, 1, 0, 1, stored=(1 << 63) + 5).encode() + b"\0" * 16)
    assert file.stat().st_size == HEADER_BYTES + 16
    assert "does not begin with the start" in refusal(capsys, "replay", str(file))


@pytest.mark.parametrize("log", ["bomb", "no base64!", "AAAA"])
def test_a_runs_log_that_cannot_be_unpacked_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], log: str
) -> None:
    from fathom.sim.report import run_report
    from fathom.sim.report.artifact import artifact_of, write
    from fathom.sim.scenarios import find
    from fathom.sim.world.scenario import plan_of

    scenario = find("shared-counter")
    report, telling = run_report.report(scenario, plan_of(scenario, "1", "random"))
    artifact = msgspec.structs.replace(artifact_of(report, telling), trace="another", log=log)
    if log == "bomb":
        packed = base64.b64encode(zlib.compress(bytes(1 << 30), 1)).decode()
        artifact = msgspec.structs.replace(artifact, log=packed)
    write(artifact, tmp_path / "run.json")
    refusal(capsys, "replay", str(tmp_path / "run.json"))


def test_a_run_that_is_nested_without_end_or_too_long_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = b'{"format":"fathom.dev/sim-run/1","patch":'
    (tmp_path / "deep.json").write_bytes(head + b"[" * 1_000_000)
    refusal(capsys, "replay", str(tmp_path / "deep.json"))
    with (tmp_path / "long.json").open("wb") as file:
        file.write(head)
        file.truncate(1 << 33)  # A sparse file: eight gigabytes that take no room.
    assert "too long" in refusal(capsys, "replay", str(tmp_path / "long.json"))
