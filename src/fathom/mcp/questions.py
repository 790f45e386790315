"""The tools that only ask. Each has the command line's text, and its document."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from fathom.cli.ask import coupling as coupling_command
from fathom.cli.ask.explanation_text import explanation_lines, stuck_lines
from fathom.cli.ask.explanations import OWN_KINDS, ApiServer, Question
from fathom.cli.ask.status import status_lines
from fathom.cli.ask.timeline import fetch_timeline, subject_of, text_lines
from fathom.cli.ask.why import COLUMNS, is_of, kind_and_name, without_outcome
from fathom.cli.problem import Problem
from fathom.cli.steer.override_actions import OVERRIDES, namespace_for, now_ns
from fathom.cli.steer.override_preview import PREVIEW_S
from fathom.cli.steer.override_text import list_rows, show_lines
from fathom.cli.steer.own_objects import OwnObjects
from fathom.cli.steer.preview_text import future_lines, preview_of
from fathom.cli.steer.runbook import awaited
from fathom.cli.steer.runbook_plans import planned, runbook_lines, runbook_object
from fathom.cli.steer.runbooks import RUN_COLUMNS, RUNBOOK_COLUMNS, listed, report_of, run_object
from fathom.cli.tables import age, short_id, table_lines
from fathom.explain.coupling.texts import coupling_lines
from fathom.kinds.override_changes import INFRASTRUCTURE_TARGETS
from fathom.mcp import arguments as given
from fathom.mcp.caller import Caller
from fathom.mcp.marked import Answer
from fathom.model.objects import Obj, lookup
from fathom.model.times import moment_ns

API_VERSION, OVERRIDE_KIND = "fathom.dev/v1alpha1", "SchedulerOverride"


def why(caller: Caller, asked: given.Why) -> Answer:
    document = _explained(caller, asked, at=asked.at)
    return Answer(explanation_lines(document, wide=asked.wide), document)


def what_if(caller: Caller, asked: given.WhatIf) -> Answer:
    supposed = tuple(f"{each.object}={_json(each.patch)}" for each in asked.changes)
    document = _explained(caller, asked, what_if=supposed)
    assumptions = [f"If {each.object} had {_json(each.patch)}:" for each in asked.changes]
    return Answer([*assumptions, *explanation_lines(document, wide=asked.wide)], document)


def _json(patch: Obj) -> str:
    return msgspec.json.encode(patch).decode()


def _explained(
    caller: Caller, asked: given.Why | given.WhatIf, *, at: str = "", what_if: tuple[str, ...] = ()
) -> Obj:
    server, namespace = ApiServer(caller.server), asked.namespace or caller.namespace
    kind, name = kind_and_name(asked.object, namespace, server)
    return server.explain(Question(kind=kind, name=name, namespace=namespace, at=at, what_if=what_if))


def list_stuck(caller: Caller, asked: given.Stuck) -> Answer:
    namespace = asked.namespace or caller.namespace
    name = "" if asked.all_namespaces else namespace
    question = Question(kind="namespace", name=name, namespace=namespace, view="stuck", at=asked.at)
    document = ApiServer(caller.server).explain(question)
    return Answer(stuck_lines(document), document)


def status(caller: Caller, asked: given.Status) -> Answer:
    subject, namespace = subject_of(asked.object, ""), asked.namespace or caller.namespace
    question = Question(
        kind=subject["kind"], name=subject["name"], namespace=namespace, view="status", at=asked.at
    )
    view = ApiServer(caller.server).explain(question)
    return Answer(status_lines(view), view)


def timeline(caller: Caller, asked: given.Timeline) -> Answer:
    fields = {"subject": subject_of(asked.object, ""), "since": asked.since, "at": asked.until}
    question = {name: value for name, value in fields.items() if value}
    shown = fetch_timeline(ApiServer(caller.server), asked.namespace or caller.namespace, question)
    return Answer(text_lines(shown, wide=asked.wide), shown)


def coupling(caller: Caller, asked: given.Coupling) -> Answer:
    answer = coupling_command.ask(asked.subject, asked.namespace or caller.namespace, caller.server)
    return Answer(coupling_lines(answer), answer)


def decisions(caller: Caller, asked: given.Decisions) -> Answer:
    """From the API server, which shows each caller what they may read."""
    kind, slash, name = asked.object.partition("/")
    if asked.object and not (kind and slash and name):
        raise Problem(f"write the object as KIND/NAME, not {asked.object!r}")
    query = {"limit": asked.limit, **({"fieldSelector": f"spec.subject.name={name}"} if name else {})}
    namespace = quote(asked.namespace or caller.namespace, safe="")
    path = f"{OWN_KINDS}/namespaces/{namespace}/decisions?{urlencode(query)}"
    code, answer = ApiServer(caller.server).request("GET", path)
    if code != 200:
        raise Problem(str(answer.get("message") or f"the API server answered with HTTP {code}"))
    decisions = [
        each
        for each in answer.get("items") or ()
        if not kind or is_of(kind, str(lookup(each, "spec", "subject", "resource")))
    ]
    lines = (
        table_lines([COLUMNS, *map(_decision_row, decisions)])
        if decisions
        else ["there are no recorded decisions"]
    )
    return Answer(lines, {"items": decisions})


def _decision_row(obj: Obj) -> tuple[str, ...]:
    spec, outcome = obj.get("spec") or {}, obj.get("status") or {}
    message = f": {spec['message']}" if spec.get("message") else ""
    return (
        age(moment_ns(spec.get("time")) or now_ns(), now_ns()),
        short_id(str(obj["metadata"]["name"])),
        str(spec.get("controller") or ""),
        str(spec.get("object") or ""),
        " ".join(filter(None, (str(spec.get("verdict") or ""), str(spec.get("node") or "")))),
        f"{outcome.get('result') or without_outcome(str(spec.get('verdict')))}{message}",
    )


# Overrides.


def overrides(caller: Caller, asked: given.Overrides) -> Answer:
    objects = OwnObjects(ApiServer(caller.server), OVERRIDES)
    namespace = asked.namespace or caller.namespace
    if asked.name:
        obj = objects.get(namespace, asked.name)
        return Answer(show_lines(obj, now_ns=now_ns()), without_managed_fields(obj))
    overrides = objects.list("" if asked.all_namespaces else namespace)
    rows = list_rows(overrides, now_ns=now_ns(), with_namespace=asked.all_namespaces, wide=True)
    lines = table_lines(rows) if overrides else ["there are no overrides"]
    return Answer(lines, {"items": [without_managed_fields(obj) for obj in overrides]})


def without_managed_fields(obj: Obj) -> Obj:
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": meta}


def preview_override(caller: Caller, asked: given.PreviewOverride) -> Answer:
    obj = override_object(caller, asked)
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    spec = {"override": obj, "minutes": asked.minutes, "seeds": asked.seeds}
    server = ApiServer(caller.server, answer_s=PREVIEW_S)
    preview = preview_of(server.ask("OverridePreview", "overridepreviews", spec, namespace))
    return Answer(future_lines(preview, name=f"{namespace}/{name}", target=asked.target), preview)


def override_object(caller: Caller, asked: given.Override) -> Obj:
    """The override as an object. Of nodes, zones and pools it goes to fathom's own namespace by itself."""
    is_placed = asked.target.partition("/")[0] in INFRASTRUCTURE_TARGETS
    namespace = namespace_for(
        asked.target,
        given=asked.namespace,
        in_file="",
        of_context="" if is_placed else caller.namespace,
    )
    spec = {
        "target": asked.target,
        "scope": asked.scope,
        "reason": asked.reason,
        "expiresAfter": asked.expires_after,
        "changes": asked.changes,
        **({"onEnd": asked.on_end} if asked.on_end else {}),
    }
    meta = {"name": asked.name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": OVERRIDE_KIND, "metadata": meta, "spec": spec}


# Runbooks.


def runbooks(caller: Caller, asked: given.Runbooks) -> Answer:
    namespace = asked.namespace or caller.namespace
    if asked.name:
        lines = awaited(runbook_lines(caller.server, namespace, asked.name))
        return Answer(lines, awaited(runbook_object(caller.server, namespace, asked.name)))
    notes: list[str] = []
    rows, objects = awaited(listed(caller.server, namespace, runs=False, warn=notes.append))
    lines = [*table_lines([RUNBOOK_COLUMNS, *sorted(rows)]), *notes]
    return Answer(lines, {"items": [_named(obj) for obj in objects], "notes": notes})


def runbook_runs(caller: Caller, asked: given.Runs) -> Answer:
    namespace = asked.namespace or caller.namespace
    if asked.name:
        obj = awaited(run_object(caller.server, namespace, asked.name))
        report: str = awaited(report_of(caller.server, namespace, asked.name))
        return Answer(report.splitlines(), without_managed_fields(obj))
    rows, objects = awaited(listed(caller.server, namespace, runs=True))
    lines = table_lines([RUN_COLUMNS, *sorted(rows)]) if rows else ["there are no runs"]
    return Answer(lines, {"items": [_named(obj) for obj in objects]})


def _named(obj: Obj) -> dict[str, Any]:
    """Of a list: its name and state. The steps of all runbooks would be a long document."""
    meta = {name: obj["metadata"].get(name) for name in ("namespace", "name")}
    title, phase = lookup(obj, "spec", "title"), lookup(obj, "status", "phase")
    return {**meta, **({"title": title} if title else {}), **({"phase": phase} if phase else {})}


def runbook_plan(caller: Caller, asked: given.RunbookPlan) -> Answer:
    namespace = asked.namespace or caller.namespace
    plan = awaited(planned(caller.server, namespace, asked.runbook, asked.parameters))
    return Answer(plan.lines, plan.document)
