"""Replay a kept run: is it the same, input for input? If not, which input was the first to differ?

Up to that input everything was the same, so the request that the recorded input answers was sent in this run
too: it can be named, although the file has only its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fathom.model.times import SECOND_NS
from fathom.seams.seam import Input
from fathom.sim.report.artifact import SECTION, Artifact, log_of, sections
from fathom.sim.report.chronicle import Chronicle, InputReceived, RequestSent
from fathom.sim.world.process import ARRIVED
from fathom.sim.world.scenario import Result, Scenario, ScenarioRun
from fathom.sim.world.trace import LogEntry
from fathom.sim.world.versions import differences, versions
from fathom.sim.world.violation import Violation

ANSWERS = (Input.REPLY, Input.OPENED, Input.CHUNK, Input.ENDED)

WORDS: dict[int, str] = {
    Input.TICK: "a timer",
    Input.REPLY: "the reply",
    Input.OPENED: "the beginning of the stream",
    Input.CHUNK: "a chunk of the stream",
    Input.ENDED: "the end of the stream",
    Input.SIGNAL: "a signal",
    Input.START: "the start",
    Input.CLOCK: "a clock change",
}


class RunDivergence(msgspec.Struct, frozen=True):
    """The first input that differed, from 1; 0 where it is not among the recorded ones."""

    input: int
    what: str

    def __str__(self) -> str:
        return f"input {self.input}: {self.what}" if self.input else self.what


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    reproduced: bool
    violation: Violation | None
    inputs: int
    divergence: RunDivergence | None = None
    warnings: tuple[str, ...] = ()


def replay(artifact: Artifact, scenario: Scenario) -> tuple[Replayed, Result]:
    scenario_run = ScenarioRun(scenario, artifact.plan)
    log: list[LogEntry] = []
    scenario_run.engine.trace.log = log
    result = scenario_run.run()
    same = result.trace == artifact.trace and result.violation == artifact.violation
    return Replayed(
        reproduced=same,
        violation=result.violation,
        inputs=result.inputs,
        divergence=None if same else _divergence(artifact, scenario_run, log, result),
        warnings=tuple(differences(artifact.versions, versions())),
    ), result


def _divergence(
    artifact: Artifact, scenario_run: ScenarioRun, seen: list[LogEntry], result: Result
) -> RunDivergence:
    recorded = log_of(artifact)
    at = _first_difference(recorded, seen)
    complete = artifact.logged == artifact.inputs
    if at < len(recorded) or (complete and at < len(seen)):
        words = _Words(_asks_before(scenario_run, at), scenario_run.engine.began_ns)
        was, now = _at(recorded, at), _at(seen, at)
        return RunDivergence(at + 1, f"recorded {words.of(was)}, now {words.of(now, was)}")
    for index, (was_sum, now_sum) in enumerate(_pairs(artifact.sections, sections(seen[at:]))):
        if was_sum != now_sum:
            first = at + index * SECTION + 1
            reason = "the run was too long to record all of them"
            return RunDivergence(first, f"or one of the {SECTION - 1} after it: {reason}")
    if result.violation != artifact.violation:
        return RunDivergence(0, "the inputs are the same, but the violation differs")
    return RunDivergence(0, "the inputs are the same, but the commits differ")


def _first_difference(recorded: Sequence[LogEntry], seen: Sequence[LogEntry]) -> int:
    for index, (was, now) in enumerate(zip(recorded, seen, strict=False)):
        if was != now:
            return index
    return min(len(recorded), len(seen))


def _at(log: Sequence[LogEntry], index: int) -> LogEntry | None:
    return log[index] if index < len(log) else None


def _pairs(was: Sequence[int], now: Sequence[int]) -> list[tuple[int, int]]:
    length = max(len(was), len(now))
    return list(zip((*was, *[0] * (length - len(was))), (*now, *[0] * (length - len(now))), strict=True))


Asks = dict[tuple[str, int], str]


def _asks_before(scenario_run: ScenarioRun, index: int) -> Asks:
    """(process, number) -> 'METHOD path', of all requests before an input. Runs the scenario again."""
    chronicle = Chronicle()
    ScenarioRun(scenario_run.scenario, scenario_run.plan, chronicle=chronicle).run()
    requests: Asks = {}
    for event in chronicle.events:
        if isinstance(event, InputReceived):
            index -= 1
            if index < 0:
                break
        elif isinstance(
            event, RequestSent
        ):  # A later incarnation numbers anew, and replaces the earlier one.
            requests[event.process, event.number] = f"{event.method} {event.target.partition('?')[0]}"
    return requests


class _Words:
    def __init__(self, asks: Asks, began_ns: int) -> None:
        self._asks = asks
        self._began_ns = began_ns

    def of(self, entry: LogEntry | None, was: LogEntry | None = None) -> str:
        if entry is None:
            return "nothing"
        now_ns, process, kind, number, checksum = entry
        if was is not None and entry[:4] == was[:4]:
            return f"the same with other content (checksum {checksum}, was {was[4]})"
        at_s = (now_ns - self._began_ns) / SECOND_NS
        return f"{self._name(process, kind, number)} for {process} at {at_s:.6f} s"

    def _name(self, process: str, kind: int, number: int) -> str:
        if kind == ARRIVED:
            return f"an arriving message (number {number})"
        request = self._asks.get((process, number)) if kind in ANSWERS else None
        return f"{WORDS.get(kind, Input(kind).name.lower())}{f' to {request}' if request else ''}"


def as_json(artifact: Artifact, replayed: Replayed, result: Result) -> dict[str, Any]:
    return {
        "reproduced": replayed.reproduced,
        "violation": replayed.violation,
        "inputs": replayed.inputs,
        "divergence": replayed.divergence,
        "warnings": replayed.warnings,
        "scenario": artifact.plan.scenario,
        "seed": artifact.plan.seed,
        "trace": {"recorded": artifact.trace, "replayed": result.trace},
    }
