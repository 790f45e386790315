"""How wheel and sdist are built, and a cluster of an installed wheel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]


class Packages(msgspec.Struct, frozen=True):
    wheel: Path
    sdist: Path


def build(out: Path, *words: str) -> Packages:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *words, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return Packages(*(next(iter(out.glob(pattern)), out) for pattern in ("*.whl", "*.tar.gz")))


def run(bin_directory: Path, place: Path, *words: str, user: int = 0) -> subprocess.CompletedProcess[str]:
    """An installed `fathom`, as somebody who has never seen the repository types it."""
    return subprocess.run(
        [bin_directory / "fathom", *words],
        capture_output=True, text=True, check=False, cwd=place, env=environment(bin_directory), timeout=120,
        stdin=subprocess.DEVNULL, **as_user(user),
    )  # fmt: skip


def as_user(user: int) -> dict[str, Any]:
    """0: whoever runs the tests."""
    return {"user": user, "group": user, "extra_groups": []} if user else {}


def environment(bin_directory: Path) -> dict[str, str]:
    """Without anything of the environment that runs the tests."""
    return {"PATH": f"{bin_directory}:{os.defpath}", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}


@contextmanager
def cluster(
    bin_directory: Path, place: Path, *words: str, user: int = 0, below: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """`fathom up` in the directory, ready; its pods are ended with it. `below`: a command that starts it."""
    command = [*below, str(bin_directory / "fathom"), "up", "--port", "0", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place,
        env=environment(bin_directory), **as_user(user),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = []
        while (line := process.stdout.readline()) and line != "ready\n":
            said.append(line)
        try:
            assert line == "ready\n", said
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            run(bin_directory, place, "down", user=user)
