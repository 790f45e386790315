"""A program whose fsync can be made slow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.chaos import slow_disk
from tests.chaos.victim import eventually

pytestmark = pytest.mark.live

PROGRAM = """
import os, sys
with open(sys.argv[1], "w") as file:
    print("before", flush=True)
    os.fsync(file.fileno())
    print("between", flush=True)
    os.fdatasync(file.fileno())
    print("after", flush=True)
"""


def test_an_fsync_returns_when_the_disk_is_no_longer_slow(tmp_path: Path) -> None:
    if not slow_disk.is_possible():
        pytest.skip("the kernel does not let us delay system calls here")
    delay, out = tmp_path / "delay", tmp_path / "out"
    delay.write_text("3600")
    command = [sys.executable, slow_disk.__file__, str(delay), sys.executable, "-c", PROGRAM]
    with out.open("wb") as said:
        running = subprocess.Popen([*command, str(tmp_path / "file")], stdout=said)
    try:
        eventually(delay.with_suffix(".held").exists, seconds=30)
        assert out.read_text() == "before\n"
        delay.write_text("0")
        assert running.wait(30) == 0
        assert out.read_text() == "before\nbetween\nafter\n"
    finally:
        running.kill()
        running.wait()
