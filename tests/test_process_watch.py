"""A test that starts a process and does not say so fails, whatever it started it with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = """
import asyncio, multiprocessing, os, subprocess, sys
import pytest

def popen():
    subprocess.run([sys.executable, "-c", ""], check=True)

def loop():
    async def main():
        await (await asyncio.create_subprocess_exec(sys.executable, "-c", "")).wait()
    asyncio.run(main())

def fork():
    child = multiprocessing.get_context("fork").Process(target=int)
    child.start()
    child.join()

WAYS = [popen, loop, fork]

@pytest.fixture
def started(way):
    way()

@pytest.mark.parametrize("way", WAYS)
def test_called(way):
    way()

@pytest.mark.parametrize("way", WAYS)
def test_set_up(started):
    pass

@pytest.mark.live
@pytest.mark.parametrize("way", WAYS)
def test_marked(way):
    way()

def test_pure():
    subprocess.run(["git", "--version"], check=True)
"""


@pytest.mark.live
def test_only_who_is_marked_may_start_a_process(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = live: starts processes\n")
    words = ["-p", "tests.process_watch", "-q", "-rfE", "--rootdir", str(tmp_path), str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "3 failed, 4 passed, 3 errors" in ran.stdout, ran.stdout
    assert ran.stdout.count("and is not marked") >= 6
