"""The file of results: one JSON line for each run, appended when the run has ended.

It outlives the exploration, however that ends, and the next call with the same file goes on where the last
one ended. A run counts as done only for the code that it ran: lines of other code stay as history, and their
runs are done again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from fathom.model.times import timestamp
from fathom.seams.outside import SystemClock
from fathom.sim.world.faults import AnyFault
from fathom.sim.world.scenario import Result, RunPlan, Strategy
from fathom.sim.world.versions import versions
from fathom.sim.world.violation import Violation

OURS = b'{"at":'  # How each line begins.


class BadResults(Exception):
    """The message is one line: what is wrong with the file."""


class ResultLine(msgspec.Struct, frozen=True, kw_only=True):
    at: str  # When the run ended, by the wall clock.
    fathom: str  # Its version.
    code: str  # A digest of all code that the run follows from; see `code_of`.
    scenario: str
    seed: str
    strategy: Strategy
    held: bool
    violation: Violation | None
    faults: tuple[AnyFault, ...]
    scale: int
    sim_s: float
    real_s: float
    inputs: int
    trace: str
    fired: dict[str, int]
    reached: tuple[str, ...]
    sometimes: dict[str, int]

    @property
    def result(self) -> Result:
        return Result(
            plan=RunPlan(
                scenario=self.scenario,
                seed=self.seed,
                strategy=self.strategy,
                faults=self.faults,
                scale=self.scale,
            ),
            violation=self.violation,
            trace=self.trace,
            inputs=self.inputs,
            sim_s=self.sim_s,
            real_s=self.real_s,
            fired=self.fired,
            hits=self.sometimes,
            reached=self.reached,
        )


def line_of(result: Result, *, code: str, now_ns: int) -> ResultLine:
    plan = result.plan
    return ResultLine(
        at=timestamp(now_ns),
        fathom=versions().fathom,
        code=code,
        scenario=plan.scenario,
        seed=plan.seed,
        strategy=plan.strategy,
        held=result.violation is None,
        violation=result.violation,
        faults=plan.faults,
        scale=plan.scale,
        sim_s=round(result.sim_s, 3),
        real_s=round(result.real_s, 4),
        inputs=result.inputs,
        trace=result.trace,
        fired=result.fired,
        reached=result.reached,
        sometimes=result.hits,
    )


def code_of(names: Iterable[str], patch: Path | None) -> str:
    """Everything that the results follow from besides their plans: fathom's code, Python, dependencies, the
    patch, and the files of scenarios that are not fathom's own (without what those import)."""
    digest = hashlib.blake2b(msgspec.json.encode(versions()), digest_size=8)
    files = sorted({name.rpartition(":")[0] for name in names if ".py:" in name})
    for file in [*map(Path, files), *([patch] if patch is not None else [])]:
        digest.update(b"\0" + hashlib.blake2b(file.read_bytes()).digest())
    return digest.hexdigest()


class ResultsFile:
    """Open for one exploration; a second one that wants the same file is refused. Use it with `with`."""

    def __init__(self, file: Path, *, code: str) -> None:
        self._code = code
        self._clock = SystemClock()
        self._fd = _opened(file)
        self.done: list[Result] = []
        self.of_other_code = 0
        try:
            self._read(file)
        except BadResults:
            os.close(self._fd)
            raise

    def _read(self, file: Path) -> None:
        """A file of many nights is mostly of other code: only the lines of this one are decoded, and the
        first, so that a file given by mistake is noticed."""
        mark, whole = f'"code":"{self._code}"'.encode(), 0
        with os.fdopen(os.dup(self._fd), "rb") as opened:
            for number, raw in enumerate(opened, 1):
                if not raw.startswith(OURS[: len(raw)]) or (number == 1 and raw.endswith(b"\n")):
                    _line(raw, number, file)
                if not raw.endswith(b"\n"):
                    os.ftruncate(self._fd, whole)  # The last run of a killed exploration.
                elif mark in raw:
                    self.done.append(_line(raw, number, file).result)
                else:
                    self.of_other_code += 1
                whole += len(raw)

    def add(self, result: Result) -> None:
        """One write: if we are killed meanwhile, at most half a line is left, which the next call drops."""
        line = line_of(result, code=self._code, now_ns=self._clock.now_ns())
        os.write(self._fd, msgspec.json.encode(line) + b"\n")

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, *how: object) -> None:
        os.close(self._fd)


def _opened(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise BadResults(f"cannot open {file}: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise BadResults(f"another exploration is writing to {file}") from None
    return fd


DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ResultLine)


def _line(raw: bytes, number: int, file: Path) -> ResultLine:
    try:
        line: ResultLine = DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadResults(
            f"{file}, line {number}, is no result of an exploration: {error}; give another file"
        ) from None
    return line
