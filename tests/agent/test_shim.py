"""One run of a container under its shim: what it records, whom it leaves behind, what a full disk costs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fathom.agent import shim
from fathom.model.objects import Obj, lookup

pytestmark = pytest.mark.live


def test_a_shim_records_who_runs_and_how_it_ended_and_leaves_nobody_behind(tmp_path: Path) -> None:
    script = "sleep 60 & (setsid sleep 60 &) ; echo $$; echo bad >&2; exit 5"
    code, said = launched(tmp_path, "sh", "-c", script)
    assert (code, said) == (0, "ok")
    exit_ = waited(tmp_path / "exit.json")
    who = json.loads((tmp_path / "run.json").read_text())
    assert (exit_["code"], exit_["signal"], exit_["uid"]) == (5, 0, "u1")
    lines = [line.split(" ", 3)[1:] for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(lines) == [["stderr", "F", "bad"], ["stdout", "F", str(who["pid"])]]
    assert not processes_of(tmp_path)
    assert not (tmp_path / "spec").exists()


def test_a_shim_says_why_a_program_cannot_be_started(tmp_path: Path) -> None:
    code, said = launched(tmp_path, "./not-there")
    assert (code, said) == (1, "No such file or directory: ./not-there")
    assert waited(tmp_path / "exit.json")["code"] == 127


def test_a_second_run_beside_one_that_lives_is_refused(tmp_path: Path) -> None:
    assert launched(tmp_path, "sleep", "300") == (0, "ok")
    first = json.loads((tmp_path / "run.json").read_text())
    assert launched(tmp_path, "sleep", "300") == (1, "another run of this container is still running")
    assert json.loads((tmp_path / "run.json").read_text()) == first
    os.kill(first["pid"], 15)
    assert waited(tmp_path / "exit.json")["signal"] == 15


@pytest.mark.parametrize("script", ["exec sleep 300", "while true; do echo chatty; sleep 0.1; done"])
def test_a_program_whose_directory_is_deleted_is_ended(tmp_path: Path, script: str) -> None:
    """Else whoever deletes a data directory would keep the programs of its pods for ever."""
    directory = tmp_path / "run"
    directory.mkdir()
    assert launched(directory, "sh", "-c", f"(setsid sleep 300 &); {script}") == (0, "ok")
    assert processes_of(directory)
    shutil.rmtree(directory)
    deadline_s = time.monotonic() + 30
    while processes_of(directory):
        assert time.monotonic() < deadline_s, "still running"
        time.sleep(0.1)


def test_a_program_that_gets_no_memory_is_recorded_with_its_peak_and_its_limit(tmp_path: Path) -> None:
    hungry = (sys.executable, "-c", "import sys; sys.exit('MemoryError' if len(bytearray(8 << 20)) else 0)")
    limits: Any = {"rlimits": {"DATA": 1 << 30}, "memory_bytes": 1 << 30}
    assert launched(tmp_path, *hungry, **limits) == (0, "ok")
    message = waited(tmp_path / "exit.json")["message"]
    peak = re.fullmatch(r"memory was refused: memory peak (\d+) of the limit 1073741824 bytes", message)
    assert peak is not None
    assert int(peak[1]) > 8 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("the system permits no mounts")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(directory: Path) -> None:
    with contextlib.suppress(OSError), (directory / "filled").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_how_a_program_ended_is_recorded_though_the_disk_is_full(small_disk: Path) -> None:
    go = small_disk / "go"
    script = f"until [ -e {go} ]; do sleep 0.05; done; echo lost; exit 7"
    assert launched(small_disk, "sh", "-c", script) == (0, "ok")
    go.with_name("ready").touch()
    fill(small_disk)
    go.with_name("ready").rename(go)
    assert waited(small_disk / "exit.json")["code"] == 7


def test_a_program_that_cannot_be_recorded_is_not_started_and_it_is_said_why(small_disk: Path) -> None:
    spec = small_disk.parent / "spec"
    fill(small_disk)
    code, said = launched(small_disk, "sleep", "300", spec=spec)
    assert (code, said) == (1, f"No space left on device: {small_disk}")
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _started_by(pid, small_disk)]


def test_a_log_that_cannot_be_rotated_costs_no_program_its_life(tmp_path: Path) -> None:
    log = shim.ContainerLog(str(tmp_path / "log"), 200, 3)
    (tmp_path / "log").unlink()
    for number in range(20):
        log.write("stdout", b"line %d\n" % number)
    log.close()


def launched(
    directory: Path, *argv: str, spec: Path | None = None, message: str = "", **more: Any
) -> tuple[int, str]:
    file = spec or directory / "spec"
    content = {
        "argv": argv, "env": {"PATH": os.environ["PATH"], "MARK": str(directory)}, "cwd": str(directory),
        "directory": str(directory), "lock": str(directory / "lock"),
        "log": str(directory / "log"), "log_bytes": 1000, "log_files": 2,
        "record": {"uid": "u1"}, "message": message, **more,
    }  # fmt: skip
    file.write_text(json.dumps(content))
    words = [sys.executable, "-I", "-S", shim.__file__, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout


def waited(path: Path) -> Obj:
    deadline_s = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline_s, f"no {path.name}"
        time.sleep(0.02)
    found: Obj = json.loads(path.read_text())
    return found


def processes_of(directory: Path) -> list[str]:
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and _started_by(pid, directory)]


def _started_by(pid: str, directory: Path) -> bool:
    try:
        state = lookup({"s": Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]}, "s")
        return state != "Z" and f"MARK={directory}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
