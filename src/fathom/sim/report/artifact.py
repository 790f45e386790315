"""One run in one file: everything that is needed to replay it, and its result.

The run follows from scenario, seed, strategy, faults and code. The log of inputs, each with a checksum of
its payload, shows when a replay differs (`replay`).
"""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import msgspec

from fathom import private_files
from fathom.explain.timeline.lines import Line
from fathom.sim.report.artifact_head import (
    FORMAT,
    UNPACKED_BYTES_MAX,
    NotAnArtifact,
    PatchHead,
    content_of,
    head_of,
    patch_of,
)
from fathom.sim.report.run_report import RunReport
from fathom.sim.world.scenario import RunPlan, ScenarioRun
from fathom.sim.world.trace import LogEntry
from fathom.sim.world.versions import Versions, versions
from fathom.sim.world.violation import Violation

BYTES_MAX = 1 << 20

# The limit for the log, and that for the initial objects; the rest is for the timeline.
LOG_BYTES_MAX = BYTES_MAX * 5 // 8
OBJECTS_BYTES_MAX = BYTES_MAX // 8


# Inputs that do not fit get one checksum per section of this size: so a difference is at least narrowed down.
SECTION = 1000


class Configuration(msgspec.Struct, frozen=True):
    servers: int
    checkers: tuple[str, ...]  # The invariants that were on.
    processes: dict[str, Any]  # Name -> its API server and its options.


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    versions: Versions
    plan: RunPlan
    configuration: Configuration
    violation: Violation | None
    trace: str
    inputs: int
    fired: dict[str, int]
    timeline: tuple[Line, ...]
    streams: tuple[str, ...]  # The random streams that were drawn from: each follows from the seed.
    objects: str  # In the store when the scenario began: JSON, compressed, base64. '' where too large.
    log: str  # Of inputs, packed likewise: only its beginning, where it is too long.
    logged: int
    sections: tuple[int, ...] = ()  # Checksums of the inputs after that.
    patch: PatchHead | None = None


def artifact_of(report: RunReport, scenario_run: ScenarioRun, *, patch: Path | None = None) -> Artifact:
    engine, result = scenario_run.engine, report.result
    entries = engine.trace.log or []
    log, logged = _packed_log(entries)
    return Artifact(
        format=FORMAT,
        versions=versions(),
        plan=result.plan,
        configuration=_configuration(scenario_run),
        violation=result.violation,
        trace=result.trace,
        inputs=result.inputs,
        fired=result.fired,
        timeline=report.lines,
        streams=_streams(scenario_run),
        objects=_packed_objects(scenario_run),
        log=log,
        logged=logged,
        sections=tuple(sections(entries[logged:])),
        patch=None if patch is None else patch_of(patch),
    )


def _configuration(scenario_run: ScenarioRun) -> Configuration:
    world = scenario_run.world
    processes = {
        process.name: {
            "server": process.server,
            "options": msgspec.to_builtins(process.options, enc_hook=str),
        }
        for process in world.engine.processes.values()
    }
    checkers = tuple(checker.name for checker in world.checkers)
    return Configuration(scenario_run.scenario.servers, checkers, processes)


def sections(entries: list[LogEntry]) -> list[int]:
    starts = range(0, len(entries), SECTION)
    return [zlib.crc32(msgspec.json.encode(entries[start : start + SECTION])) for start in starts]


def _streams(scenario_run: ScenarioRun) -> tuple[str, ...]:
    engine = scenario_run.engine
    lives = [
        f"{process.name}/{incarnation}"
        for process in engine.processes.values()
        for incarnation in range(1, process.incarnation + 1)
    ]
    return ("faults", "workload", *engine.oracle.streams, *lives)


def _packed_objects(scenario_run: ScenarioRun) -> str:
    packed = _pack(scenario_run.world.initial)
    return packed if len(packed) <= OBJECTS_BYTES_MAX else ""


def _packed_log(log: list[LogEntry]) -> tuple[str, int]:
    """The packed log, as much of it as fits, and how many inputs that is."""
    kept = len(log)
    while len(packed := _pack(log[:kept])) > LOG_BYTES_MAX:
        kept = kept * 3 // 4
    return packed, kept


def _pack(value: object) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(value), 9)).decode()


def write(artifact: Artifact, file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    private_files.write(file, msgspec.json.format(msgspec.json.encode(artifact), indent=1))


def read(file: Path) -> Artifact:
    head_of(file)
    try:
        return msgspec.json.decode(content_of(file), type=Artifact)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotAnArtifact(f"{file} is not a recorded run: {error}") from None


def log_of(artifact: Artifact) -> list[LogEntry]:
    """Raises NotAnArtifact."""
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(artifact.log, validate=True), UNPACKED_BYTES_MAX)
        if unpacker.unconsumed_tail:
            raise NotAnArtifact(f"the run's log is larger than {UNPACKED_BYTES_MAX >> 20} MiB")
        return msgspec.json.decode(raw, type=list[LogEntry])
    except (ValueError, zlib.error, msgspec.DecodeError) as error:
        raise NotAnArtifact(f"the run's log cannot be read: {error}") from None
