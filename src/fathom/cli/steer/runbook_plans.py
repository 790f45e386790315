"""Shows runbooks, and what a run would do, for `fathom runbook show` and `plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fathom.cli.ask.explanations import ApiServer
from fathom.cli.problem import Problem
from fathom.cli.steer.override_preview import PREVIEW_S
from fathom.cli.steer.preview_text import future_lines, preview_of
from fathom.cli.steer.runbooks import (
    FoundRunbook,
    as_object,
    connected,
    draft_of,
    find_runbook,
    planned_steps,
)
from fathom.client.api import Api
from fathom.client.server_address import ServerAddress
from fathom.kinds.runbook import Runbook, RunbookSpec, spec_hash
from fathom.kinds.runbook_run import RunbookRun
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.kinds.shape import Meta
from fathom.model.objects import Obj, lookup, metadata
from fathom.seams.outside import live
from fathom.steer.actions import describe
from fathom.steer.conditions import Conditions, Verdict
from fathom.steer.resources import Resources
from fathom.steer.runbook_library import library
from fathom.steer.runner import facts_of
from fathom.steer.templates import filled_struct, run_values

# Showing.


async def runbook_object(kubeconfig: Path | ServerAddress | None, namespace: str, name: str) -> Obj:
    runbook = await _found(kubeconfig, namespace, name)
    return as_object(Runbook(metadata=Meta(name=runbook.name), spec=runbook.spec))


async def runbook_lines(kubeconfig: Path | ServerAddress | None, namespace: str, name: str) -> list[str]:
    runbook = await _found(kubeconfig, namespace, name)
    spec = runbook.spec
    lines = [f"{runbook.name} version {spec.version} ({runbook.source}): {spec.title}"]
    lines += [f"hash {spec_hash(spec)}", *([spec.description] if spec.description else [])]
    if spec.parameters:
        lines.append("parameters:")
    for parameter in spec.parameters:
        default = "required" if parameter.default is None else f"default {parameter.default}"
        lines.append(f"  {parameter.name}: {parameter.description} ({default})")
    for title, conditions in (("preconditions", spec.preconditions), ("stops if", spec.stop_if)):
        lines += [f"{title}:"] if conditions else []
        lines += [f"  {each.name}: {each.expression}" for each in conditions]
    lines += ["steps:", *_step_lines(spec)]
    lines += ["postconditions:"] if spec.postconditions else []
    return lines + [
        f"  {each.name}: {each.expression}{f' (for {each.for_})' if each.for_ else ''}"
        for each in spec.postconditions
    ]


def _step_lines(spec: RunbookSpec) -> list[str]:
    lines = []
    for step in spec.steps:
        lines.append(f"  {step.id}: {step.title or describe(step.action)}")
        if step.title:
            lines.append(f"    does: {describe(step.action)}")
        lines += [f"    expects {each.name}: {each.expression}" for each in step.expect]
        lines += [f"    stops if {each.name}: {each.expression}" for each in step.stop_if]
        if step.compensation is not None:
            lines.append(f"    undone by: {describe(step.compensation)}")
        elif not step.reversible:
            lines.append("    cannot be undone")
    return lines


async def _found(kubeconfig: Path | ServerAddress | None, namespace: str, name: str) -> FoundRunbook:
    try:
        async with connected(kubeconfig) as api:
            return await find_runbook(api, namespace, name)
    except Problem:
        if name not in library():
            raise
        return await find_runbook(None, namespace, name)  # The library needs no server.


# Planning.


class RunbookPlan(msgspec.Struct, frozen=True):
    lines: list[str]
    ready: bool  # Whether all preconditions hold now.
    document: dict[str, Any]


async def planned(
    kubeconfig: Path | ServerAddress | None, namespace: str, name: str, parameters: Mapping[str, str]
) -> RunbookPlan:
    async with connected(kubeconfig) as api:
        runbook = await find_runbook(api, namespace, name)
        run = draft_of(runbook, namespace, f"{name}-plan", parameters, "")
        verdicts = await _judged(api, run)
        objects = _created(run)
        lines = [
            f"{runbook.name} version {runbook.spec.version} ({runbook.source}), hash {run.spec.runbook.hash}"
        ]
        lines += ["preconditions now:", *map(_verdict_line, verdicts)]
        lines += ["steps:", *planned_steps(run)]
    lines += _preview_lines(kubeconfig, namespace, objects)
    ready = all(verdict.passes for verdict in verdicts)
    return RunbookPlan(lines, ready, _document(run, verdicts, objects, ready=ready))


def _document(
    run: RunbookRun, verdicts: Iterable[Verdict], objects: Iterable[Obj], *, ready: bool
) -> dict[str, Any]:
    book = run.spec.runbook
    return {
        "runbook": {"name": book.name, "version": run.spec.content.version, "hash": book.hash},
        "ready": ready,
        "preconditions": list(verdicts),
        "steps": [
            {"id": step.id, "does": describe(filled_struct(step.action, run_values(run)))}
            for step in run.spec.content.steps
        ],
        "creates": list(objects),
    }


async def _judged(api: Api, run: RunbookRun) -> tuple[Verdict, ...]:
    conditions = Conditions(run.spec.content)
    facts = await facts_of(api, Resources(api), run, run.status, live().clock.now_ns)
    return conditions.judge(run.spec.content.preconditions, facts)


def _verdict_line(verdict: Verdict) -> str:
    shown = f" ({verdict.shown})" if verdict.shown else ""
    about = f": {verdict.message}" if verdict.message else ""
    return f"  {verdict.value:8}{verdict.name}{shown}{about}"


def _preview_lines(
    kubeconfig: Path | ServerAddress | None, namespace: str, objects: Iterable[Obj]
) -> list[str]:
    """What forks of the cluster do with each override that the steps create, one by one. A run makes them one
    after the other, and people judge in between: the plan shows each alone."""
    server = ApiServer(kubeconfig, answer_s=PREVIEW_S)
    lines: list[str] = []
    for obj in objects:
        if obj.get("kind") == SchedulerOverride.__name__:
            lines += ["", *_future(server, namespace, obj)]
    return lines


def _future(server: ApiServer, namespace: str, obj: Obj) -> list[str]:
    meta = metadata(obj)
    where = str(meta.get("namespace") or namespace)
    placed = {**obj, "metadata": {**meta, "namespace": where}}
    spec = {"override": placed}
    name, target = f"{where}/{meta.get('name')}", str(lookup(obj, "spec", "target") or "")
    try:
        preview = preview_of(server.ask("OverridePreview", "overridepreviews", spec, where))
    except Problem as problem:
        return [f"no preview of the override {name}: {problem}"]
    return future_lines(preview, name=name, target=target)


def _created(run: RunbookRun) -> list[Obj]:
    actions = (filled_struct(step.action, run_values(run)) for step in run.spec.content.steps)
    return [action.create for action in actions if action.create is not None]
