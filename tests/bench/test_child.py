"""What /proc says about a server's processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.bench.child import cpu_s, family, filesystem_of, rss_mb

GRANDPARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"], stdin=subprocess.PIPE)
input()
child.communicate(b"\\n")
"""


def test_a_family_is_a_process_and_all_that_descend_from_it() -> None:
    command = [sys.executable, "-c", GRANDPARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        alone, both = family([parent.pid])[:1], family([parent.pid])
        assert (alone, len(both)) == ([parent.pid], 2)
        assert set(both) < set(family([os.getpid()]))
        assert rss_mb([parent.pid]) > rss_mb(both[1:]) > 1
        parent.communicate("\n")
    assert family([parent.pid]) == [parent.pid]
    assert (rss_mb([parent.pid]), cpu_s([parent.pid])) == (0.0, 0.0)


def test_cpu_time_grows_with_work() -> None:
    before = cpu_s([os.getpid()])
    while cpu_s([os.getpid()]) < before + 0.05:
        sum(range(100_000))


def test_memory_is_counted_in_millions_of_bytes() -> None:
    before = rss_mb([os.getpid()])
    held = bytearray(os.urandom(1)) * 64_000_000
    assert rss_mb([os.getpid()]) - before == pytest.approx(64, abs=8)
    del held


def test_the_filesystem_of_a_path_is_that_of_the_nearest_mount() -> None:
    assert filesystem_of(Path("/proc/self")) == "proc"
