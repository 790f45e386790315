"""Check that a run is the same in another process: each seed runs twice, with other hash seeds and heaps.

check ──jobs──> two interpreters (PYTHONHASHSEED 1 and 2, each with its own noise) ──traces──> compared

Programs that were not written for fathom may loop over sets of strings, so that their order follows from the
hash seed: where PYTHONHASHSEED is a number already, both interpreters have that one.
"""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from fathom.sim.search.cores import freeze
from fathom.sim.search.explore import Job, run_job
from fathom.sim.search.patches import load

TWINS = (1, 2)


class TwinRun(msgspec.Struct, frozen=True):
    job: Job
    trace: str
    inputs: int
    violation: str  # '' if everything held.


class Mismatch(msgspec.Struct, frozen=True):
    job: Job
    one: str
    other: str


class TwinComparison(msgspec.Struct):
    runs: int = 0
    inputs: int = 0
    mismatches: list[Mismatch] = msgspec.field(default_factory=list)


def check(
    jobs: list[Job], *, patch: str = "", progress: Callable[[TwinComparison], None] | None = None
) -> TwinComparison:
    """Run both interpreters at the same time, each on its own core, and compare their traces."""
    twins = [_start_interpreter(number, jobs, patch) for number in TWINS]
    comparison = TwinComparison()
    try:
        for first, second in zip(*(_results_of(twin) for twin in twins), strict=True):
            comparison.runs += 1
            comparison.inputs += first.inputs
            if first != second:
                comparison.mismatches.append(Mismatch(first.job, _facts(first), _facts(second)))
            if progress is not None:
                progress(comparison)
    finally:
        for twin in twins:
            twin.kill()
            twin.wait()
    if comparison.runs != len(jobs):
        raise RuntimeError(f"only {comparison.runs} of {len(jobs)} runs were done")
    return comparison


def _facts(run: TwinRun) -> str:
    return f"trace {run.trace}, {run.inputs} inputs{f', {run.violation}' if run.violation else ''}"


def _start_interpreter(number: int, jobs: Iterable[Job], patch: str) -> subprocess.Popen[bytes]:
    chosen = os.environ.get("PYTHONHASHSEED", "")
    environment = {**os.environ, "PYTHONHASHSEED": chosen if chosen.isdigit() else str(number)}
    twin = subprocess.Popen(
        [sys.executable, "-m", __name__, str(number), patch],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert twin.stdin is not None
    twin.stdin.write(msgspec.json.encode(list(jobs)))
    twin.stdin.close()
    return twin


def _results_of(twin: subprocess.Popen[bytes]) -> Iterator[TwinRun]:
    assert twin.stdout is not None
    decode = msgspec.json.Decoder(TwinRun).decode
    for line in twin.stdout:
        yield decode(line)


# Inside each of the two interpreters.


def tell_all(number: int, patch: str, jobs: IO[bytes], answers: IO[bytes]) -> None:
    if patch:
        load(Path(patch))
    from fathom.sim.scenarios import find  # noqa: PLC0415 - after the patch

    noise = Noise(number)
    freeze()
    for job in msgspec.json.decode(jobs.read(), type=list[Job]):
        noise.make()
        result = run_job({job.scenario: find(job.scenario)}, job)
        broken = result.violation.invariant if result.violation is not None else ""
        run = TwinRun(job, result.trace, result.inputs, broken)
        answers.write(msgspec.json.encode(run) + b"\n")
        answers.flush()


class Noise:
    """Varies the number and addresses of objects and the times of garbage collection: none may matter."""

    def __init__(self, number: int) -> None:
        self._rng = random.Random(number)
        self._kept: list[object] = []

    def make(self) -> None:
        count = self._rng.randrange(2000)
        self._kept = [object() if self._rng.random() < 0.5 else [None] * 9 for _ in range(count)]
        gc.set_threshold(self._rng.randrange(100, 2000))


if __name__ == "__main__":
    tell_all(int(sys.argv[1]), sys.argv[2], sys.stdin.buffer, sys.stdout.buffer)
