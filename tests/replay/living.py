"""Processes for the proofs: started, watched, killed; and what their tapes have, replayed by the command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fathom.record.replay import ReplayResult
from fathom.record.tape import Reel
from fathom.seams.seam import Input

ROOT = Path(__file__).parent.parent.parent
# The tutorial's controller is a file of its own, next to its page.
EXAMPLES = str(ROOT / "docs" / "examples")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, (EXAMPLES, os.environ.get("PYTHONPATH")))),
}


@contextmanager
def child(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**ENVIRONMENT, "PYTHONHASHSEED": "random"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until_written(port: int, live: subprocess.Popen[str], writes: int) -> None:
    """Until the server has got so many."""
    deadline_s = time.monotonic() + 60 + writes / 20
    while (count := _written(port)) < writes:
        assert live.poll() is None, "the controller ended by itself"
        assert time.monotonic() < deadline_s, f"only {count} writes"
        time.sleep(0.05)


def _written(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/written", timeout=10) as answer:
        return int(answer.read())


def replayed_by_command(tape: Path, hash_seed: int, *options: str) -> ReplayResult:
    done = subprocess.run(
        [sys.executable, "-m", "fathom.cli", "replay", str(tape), *options, "--json"],
        cwd=ROOT,
        env={**ENVIRONMENT, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return msgspec.json.decode(done.stdout, type=ReplayResult)


def outcomes_met(reel: Reel) -> Counter[str]:
    return Counter(
        f"{Input(record.kind).name} {record.status}"
        for record in reel.records()
        if record.kind in {Input.REPLY, Input.OPENED, Input.ENDED, Input.COLLECT}
    )
