"""The report of one run, as text and JSON: verdict, timeline, faults, and the command to replay it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fathom.explain.timeline.lines import Line, as_text, clock, lines_of
from fathom.explain.timeline.timeline import Timeline
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.report.timeline import timeline
from fathom.sim.world.faults import AnyFault, sentence
from fathom.sim.world.process import EPOCH_NS
from fathom.sim.world.scenario import Result, RunPlan, Scenario, ScenarioRun, plan_of

CAUSES_MAX = 6

HOLDS, BROKEN = "holds", "broken"


class ReportedCause(msgspec.Struct, frozen=True):
    """A possible cause: a line of the timeline with a stale read, a lost reply, …"""

    line: int
    kind: str
    who: str
    what: str


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    verdict: str
    result: Result
    timeline: Timeline
    lines: tuple[Line, ...]  # The timeline, as numbered lines.
    causes: tuple[ReportedCause, ...]
    rerun: str  # The command that runs it again.
    patch: str = ""  # The file of the active patch.
    tale: tuple[str, ...] = ()  # The scenario's own summary, where it has one.


def report(scenario: Scenario, plan: RunPlan, *, patch: str = "") -> tuple[RunReport, ScenarioRun]:
    """Run it again with everything recorded; the run is the same."""
    chronicle = Chronicle()
    scenario_run = ScenarioRun(scenario, plan, chronicle=chronicle)
    scenario_run.engine.trace.log = []
    result = scenario_run.run()
    run_timeline = timeline(
        chronicle,
        began_ns=scenario_run.engine.began_ns,
        processes=scenario.menu.processes,
        violation=result.violation,
    )
    lines = lines_of(run_timeline, origin_ns=EPOCH_NS + scenario_run.engine.began_ns)
    until_s = result.violation.at_s if result.violation is not None else result.sim_s
    causes = [
        ReportedCause(number, line.culprit, line.who, line.what)
        for number, line in enumerate(lines, 1)
        if line.culprit and line.at_s <= until_s
    ]
    return RunReport(
        verdict=HOLDS if result.violation is None else BROKEN,
        result=result,
        timeline=run_timeline,
        lines=lines,
        causes=tuple(causes),
        rerun=rerun(scenario, plan, patch=patch),
        patch=patch,
        tale=_tale(scenario, plan, chronicle, began_ns=scenario_run.engine.began_ns),
    ), scenario_run


def _tale(scenario: Scenario, plan: RunPlan, chronicle: Chronicle, *, began_ns: int) -> tuple[str, ...]:
    if scenario.tale is None:
        return ()
    return tuple(line.replace("{seed}", plan.seed) for line in scenario.tale(chronicle, began_ns))


def rerun(scenario: Scenario, plan: RunPlan, *, patch: str = "") -> str:
    """The command for a run that follows from its seed alone; '' for any other: its file is replayed."""
    if plan != plan_of(scenario, plan.seed, plan.strategy):
        return ""
    strategy = "" if plan.strategy == "random" else f" --strategy {plan.strategy}"
    patched = f" --patch {patch}" if patch else ""
    return f"fathom sim run {plan.scenario} --seed {plan.seed}{strategy}{patched}"


def replay_command(plan: RunPlan, file: str, *, patch: str = "") -> str:
    """With the flags by which its reader allows code to run: a scenario's file, and the patch."""
    trust = " --trust scenario" if ".py:" in plan.scenario else ""
    return f"fathom replay {file}{trust}" + (f" --patch {patch}" if patch else "")


def as_lines(report: RunReport, *, artifact: str = "") -> list[str]:
    result, plan = report.result, report.result.plan
    violation = result.violation
    head = [f"{plan.scenario}, seed {plan.seed}: everything holds"]
    if violation is not None:
        head = [
            f"{plan.scenario}, seed {plan.seed}: BROKEN at {clock(violation.at_s)}",
            f"  {violation.invariant}",
            *(f"  {line}" for line in violation.message.splitlines()),
        ]
        if violation.objects:
            head.append(f"  about {', '.join(violation.objects)}")
    speed = f"{result.sim_s / result.real_s:,.0f} × real time" if result.real_s else ""
    counts = f"{result.sim_s:,.1f} s simulated, {result.inputs:,} inputs, {speed}, trace {result.trace}"
    return [
        *head,
        "",
        *([*report.tale, ""] if report.tale else []),
        *as_text(report.lines),
        "",
        *(_causes(report.causes) if violation is not None else ()),
        *_faults(plan.faults, result.fired),
        counts,
        *([f"rerun:   {report.rerun}"] if report.rerun else []),
        *([f"replay:  {replay_command(plan, artifact, patch=report.patch)}"] if artifact else []),
    ]


def _causes(causes: Sequence[ReportedCause]) -> list[str]:
    """A long run has many; the last ones are nearest to the violation."""
    if not causes:
        return []
    shown = [f"  {cause.kind}, line {cause.line}: {cause.who} {cause.what}" for cause in causes[-CAUSES_MAX:]]
    return ["possible causes:", *shown, ""]


def _faults(faults: Sequence[AnyFault], fired: dict[str, int]) -> list[str]:
    if not faults:
        return ["no faults", ""]
    lines = ["faults planned:", *(f"  {clock(fault.at_s)}  {sentence(fault)}" for fault in faults)]
    if not fired:
        return [*lines, "none of them took effect", ""]
    hits = [f"  {site}" + (f"  ×{times}" if times > 1 else "") for site, times in sorted(fired.items())]
    return [*lines, "faults that fired:", *hits, ""]


def as_json(report: RunReport, *, artifact: str = "") -> dict[str, Any]:
    result, plan = report.result, report.result.plan
    return {
        "verdict": report.verdict,
        "scenario": plan.scenario,
        "seed": plan.seed,
        "strategy": plan.strategy,
        "violation": msgspec.to_builtins(result.violation),
        "tale": list(report.tale),
        "timeline": msgspec.to_builtins(report.lines),
        "causes": msgspec.to_builtins(report.causes),
        "faults": msgspec.to_builtins(plan.faults),
        "fired": result.fired,
        "sometimes": result.hits,
        "sim_s": round(result.sim_s, 3),
        "real_s": round(result.real_s, 3),
        "inputs": result.inputs,
        "trace": result.trace,
        "rerun": report.rerun,
        "artifact": artifact,
    }
