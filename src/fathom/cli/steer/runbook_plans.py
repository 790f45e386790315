"""Shows runbooks, and what a run would do, for `fathom runbook show` and `plan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fathom.cli.ask.explanations import ApiServer
from fathom.cli.problem import Problem
from fathom.cli.steer.override_preview import PREVIEW_S
from fathom.cli.steer.preview_text import future_lines, preview_of, run_lines
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
from fathom.kinds.runbook import Runbook, RunbookAction, RunbookSpec, spec_hash
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
    previews = list(_previews(ApiServer(kubeconfig, answer_s=PREVIEW_S), namespace, run, objects))
    lines += [line for preview in previews for line in ("", *preview.lines)]
    ready = all(verdict.passes for verdict in verdicts)
    document = _document(run, verdicts, objects, ready=ready)
    document["previews"] = [preview.status for preview in previews if preview.status]
    return RunbookPlan(lines, ready, document)


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


class _Tried(msgspec.Struct, frozen=True):
    """What forks of the cluster did, or why there were none."""

    lines: list[str]
    status: Obj = {}


def _previews(server: ApiServer, namespace: str, run: RunbookRun, objects: Iterable[Obj]) -> Iterator[_Tried]:
    """A run that writes nothing but overrides makes them one after the other, and people judge in between:
    the plan shows each alone, with its end. Of any other run, all steps are carried out in forks."""
    if not _writes_only_overrides(run):
        yield _tried_run(server, namespace, run)
        return
    for obj in objects:
        yield _tried_override(server, namespace, obj)


def _tried_run(server: ApiServer, namespace: str, run: RunbookRun) -> _Tried:
    spec = {"run": msgspec.json.decode(msgspec.json.encode(run))}
    try:
        status = server.ask("OverridePreview", "overridepreviews", spec, namespace)
    except Problem as problem:
        return _Tried([f"the steps were not tried: {problem}"])
    return _Tried(run_lines(preview_of(status)), status)


def _tried_override(server: ApiServer, namespace: str, obj: Obj) -> _Tried:
    meta = metadata(obj)
    where = str(meta.get("namespace") or namespace)
    spec = {"override": {**obj, "metadata": {**meta, "namespace": where}}}
    name, target = f"{where}/{meta.get('name')}", str(lookup(obj, "spec", "target") or "")
    try:
        status = server.ask("OverridePreview", "overridepreviews", spec, where)
    except Problem as problem:
        return _Tried([f"no preview of the override {name}: {problem}"])
    return _Tried(future_lines(preview_of(status), name=name, target=target), status)


def _created(run: RunbookRun) -> list[Obj]:
    return [action.create for action in _actions(run) if action.create is not None]


def _writes_only_overrides(run: RunbookRun) -> bool:
    """Also where it writes nothing."""
    return all(_written_kind(action) in {"", SchedulerOverride.__name__} for action in _actions(run))


def _written_kind(action: RunbookAction) -> str:
    if template := action.create or action.apply:
        return str(template.get("kind") or "?")
    if action.delete is not None:
        return action.delete.kind or "?"
    changed = action.patch or action.scale
    return (changed.target.kind or "?") if changed is not None else ""


def _actions(run: RunbookRun) -> list[RunbookAction]:
    return [filled_struct(step.action, run_values(run)) for step in run.spec.content.steps]
