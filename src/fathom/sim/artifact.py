"""One run in one file: everything that is needed to see it again, and what was seen.

The run follows from scenario, seed, strategy, faults and code. The log of inputs, each with a checksum of
what was delivered, is there to notice when it no longer does, and to name the first input that differs.
"""

from __future__ import annotations

import base64
import platform
import zlib
from pathlib import Path

import msgspec

from fathom import __version__
from fathom.seams.seam import Input
from fathom.sim.kept import FORMAT, NotAnArtifact, Patch, head_of, patch_of
from fathom.sim.process import ARRIVED
from fathom.sim.report import Report
from fathom.sim.scenario import Plan, Result, Scenario, Telling
from fathom.sim.timeline import Line
from fathom.sim.trace import LogEntry
from fathom.sim.violation import Violation

BYTES_MAX = 1 << 20

# What the log may take of it, and the objects that the story found; the rest is the story itself.
LOG_BYTES_MAX = BYTES_MAX * 5 // 8
OBJECTS_BYTES_MAX = BYTES_MAX // 8


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    fathom: str
    python: str
    plan: Plan
    servers: int
    violation: Violation | None
    trace: str
    inputs: int
    fired: dict[str, int]
    timeline: tuple[Line, ...]
    streams: tuple[
        str, ...
    ]  # Names of the random streams that the run drew from: each follows from the seed.
    objects: str  # What was in the store when the story began: JSON, compressed, base64. '' where too large.
    log: str  # Of inputs, packed likewise. May end early to keep the file small.
    logged: int
    patch: Patch | None = None


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    reproduced: bool
    violation: Violation | None
    inputs: int
    divergence: str = ""  # The first input that differed, in words.
    warnings: tuple[str, ...] = ()


def artifact_of(report: Report, telling: Telling, *, patch: Path | None = None) -> Artifact:
    engine, result = telling.engine, report.result
    log, logged = _packed_log(engine.trace.log or [])
    return Artifact(
        format=FORMAT,
        fathom=__version__,
        python=_python(),
        plan=result.plan,
        servers=telling.scenario.servers,
        violation=result.violation,
        trace=result.trace,
        inputs=result.inputs,
        fired=result.fired,
        timeline=report.timeline,
        streams=_streams(telling),
        objects=_packed_objects(telling),
        log=log,
        logged=logged,
        patch=None if patch is None else patch_of(patch),
    )


def _streams(telling: Telling) -> tuple[str, ...]:
    engine = telling.engine
    lives = [
        f"{process.name}/{incarnation}"
        for process in engine.processes.values()
        for incarnation in range(1, process.incarnation + 1)
    ]
    return ("faults", "workload", *engine.oracle.streams, *lives)


def _packed_objects(telling: Telling) -> str:
    packed = _pack(telling.world.initial)
    return packed if len(packed) <= OBJECTS_BYTES_MAX else ""


def _packed_log(log: list[LogEntry]) -> tuple[str, int]:
    """As much of it as fits."""
    kept = len(log)
    while len(packed := _pack(log[:kept])) > LOG_BYTES_MAX:
        kept = kept * 3 // 4
    return packed, kept


def _pack(value: object) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(value), 9)).decode()


def write(artifact: Artifact, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(artifact), indent=1))


def read(file: Path) -> Artifact:
    head_of(file)
    try:
        return msgspec.json.decode(file.read_bytes(), type=Artifact)
    except msgspec.DecodeError as error:
        raise NotAnArtifact(f"{file} is not a recorded run: {error}") from None


def replay(artifact: Artifact, scenario: Scenario) -> tuple[Replayed, Result]:
    telling = Telling(scenario, artifact.plan)
    log: list[LogEntry] = []
    telling.engine.trace.log = log
    result = telling.run()
    same = result.trace == artifact.trace and result.violation == artifact.violation
    return Replayed(
        reproduced=same,
        violation=result.violation,
        inputs=result.inputs,
        divergence="" if same else _divergence(log_of(artifact), log, artifact, result),
        warnings=tuple(_warnings(artifact)),
    ), result


def log_of(artifact: Artifact) -> list[LogEntry]:
    raw = zlib.decompress(base64.b64decode(artifact.log))
    return msgspec.json.decode(raw, type=list[LogEntry])


def _divergence(recorded: list[LogEntry], seen: list[LogEntry], artifact: Artifact, result: Result) -> str:
    for index, was in enumerate(recorded):
        now = seen[index] if index < len(seen) else None
        if now != was:
            return f"input {index + 1}: recorded {_words(was)}, now {_words(now, was) if now else 'nothing'}"
    if len(seen) > len(recorded) and artifact.logged == artifact.inputs:
        return f"input {len(recorded) + 1}: recorded nothing, now {_words(seen[len(recorded)])}"
    if result.violation != artifact.violation:
        return "the inputs are the same, but not what came of them"
    return (
        "after the last input that was recorded" if artifact.logged < artifact.inputs else "a commit differs"
    )


def _words(entry: LogEntry, was: LogEntry | None = None) -> str:
    now_ns, process, kind, number, checksum = entry
    if was is not None and entry[:4] == was[:4]:
        return f"the same with other content (checksum {checksum}, was {was[4]})"
    name = "an arrival" if kind == ARRIVED else Input(kind).name.lower()
    return f"{name} (number {number}) for {process} at {now_ns / 1e9:.6f} s"


def _warnings(artifact: Artifact) -> list[str]:
    found = []
    if artifact.fathom != __version__:
        found.append(f"recorded with fathom {artifact.fathom}, this is {__version__}")
    if artifact.python != _python():
        found.append(f"recorded with Python {artifact.python}, this is {_python()}")
    return found


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])
