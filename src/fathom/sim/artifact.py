"""One failing run in one file: everything that is needed to see it again, and what was seen.

The run follows from scenario, seed, strategy and faults; the log of inputs is there to notice when it no
longer does, and to name the first input that differs.
"""

from __future__ import annotations

import base64
import platform
import zlib
from pathlib import Path

import msgspec

from fathom import __version__
from fathom.sim.faults import AnyFault
from fathom.sim.scenario import Result, Scenario, Strategy, Telling
from fathom.sim.timeline import timeline
from fathom.sim.violation import Violation

FORMAT = "fathom.dev/sim-run/1"
BYTES_MAX = 1 << 20
LogEntry = tuple[int, str, int, int]  # time in ns, process, kind of input, number


class Artifact(msgspec.Struct, frozen=True):
    format: str
    fathom: str
    python: str
    scenario: str
    seed: str
    strategy: Strategy
    faults: tuple[AnyFault, ...]
    violation: Violation | None
    trace: str
    inputs: int
    timeline: tuple[str, ...]
    log: str  # Of inputs: JSON, compressed, base64. May end early to keep the file small.
    logged: int
    patch: str = ""  # The name of the patch that was in force.


class Replayed(msgspec.Struct, frozen=True):
    reproduced: bool
    violation: Violation | None
    divergence: str = ""  # The first input that differed, in words.
    warnings: tuple[str, ...] = ()


class NotAnArtifact(Exception):
    """One line: what is wrong with the file."""


def capture(scenario: Scenario, result: Result, *, strategy: Strategy, patch: str = "") -> Artifact:
    """Run it again with its log kept. The run is the same, so this costs one more run."""
    telling = Telling(scenario, result.seed, faults=result.faults, strategy=strategy)
    telling.engine.log = []
    again = telling.run()
    log = telling.engine.log
    encoded, logged = _packed(log)
    return Artifact(
        format=FORMAT,
        fathom=__version__,
        python=_python(),
        scenario=scenario.name,
        seed=result.seed,
        strategy=strategy,
        faults=result.faults,
        violation=again.violation,
        trace=again.trace,
        inputs=again.inputs,
        timeline=tuple(timeline(telling)),
        log=encoded,
        logged=logged,
        patch=patch,
    )


def _packed(log: list[LogEntry]) -> tuple[str, int]:
    """As much of the log as fits in three quarters of the file."""
    kept = len(log)
    while True:
        packed = base64.b64encode(zlib.compress(msgspec.json.encode(log[:kept]), 9)).decode()
        if len(packed) <= BYTES_MAX * 3 // 4:
            return packed, kept
        kept = kept * 3 // 4


def write(artifact: Artifact, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(artifact), indent=1))


def read(file: Path) -> Artifact:
    try:
        artifact = msgspec.json.decode(file.read_bytes(), type=Artifact)
    except OSError as error:
        raise NotAnArtifact(f"cannot read {file}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise NotAnArtifact(f"{file} is not a recorded run: {error}") from None
    if artifact.format != FORMAT:
        raise NotAnArtifact(f"{file} has format {artifact.format!r}; this fathom reads {FORMAT!r}")
    return artifact


def replay(artifact: Artifact, scenario: Scenario) -> Replayed:
    telling = Telling(scenario, artifact.seed, faults=artifact.faults, strategy=artifact.strategy)
    telling.engine.log = []
    result = telling.run()
    return Replayed(
        reproduced=result.trace == artifact.trace and result.violation == artifact.violation,
        violation=result.violation,
        divergence=_divergence(_unpacked(artifact), telling.engine.log),
        warnings=tuple(_warnings(artifact)),
    )


def _unpacked(artifact: Artifact) -> list[LogEntry]:
    raw = zlib.decompress(base64.b64decode(artifact.log))
    return msgspec.json.decode(raw, type=list[LogEntry])


def _divergence(recorded: list[LogEntry], seen: list[LogEntry]) -> str:
    for index, was in enumerate(recorded):
        now = seen[index] if index < len(seen) else None
        if now != was:
            return f"input {index + 1}: recorded {_words(was)}, now {_words(now) if now else 'nothing'}"
    return ""


def _words(entry: LogEntry) -> str:
    names = ("a tick", "a reply", "a stream's start", "a chunk", "a stream's end", "a signal", "a start")
    return f"{names[entry[2]]} (number {entry[3]}) for {entry[1]} at {entry[0] / 1e9:.6f} s"


def _warnings(artifact: Artifact) -> list[str]:
    found = []
    if artifact.fathom != __version__:
        found.append(f"recorded with fathom {artifact.fathom}, this is {__version__}")
    if artifact.python != _python():
        found.append(f"recorded with Python {artifact.python}, this is {_python()}")
    return found


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])
