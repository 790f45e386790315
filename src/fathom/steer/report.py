"""The report of a run, as Markdown: what a post-mortem is written from. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.kinds.runbook import RunbookStep
from fathom.kinds.runbook_run import (
    ACTED,
    ACTING,
    DONE,
    KEPT,
    UNDO_FAILED,
    UNDOING,
    RecordedVerdict,
    RecordedWrite,
    RunbookRun,
    StepRecord,
)
from fathom.steer.plan_run import record_of

NOT_CONFIRMED = "**not confirmed by audit**"


def report_text(run: RunbookRun, confirmed: frozenset[str]) -> str:
    """`confirmed`: the audit ids that the audit log has."""
    parts = [
        _head(run),
        _verdicts("Preconditions, before the first write", run.status.preconditions),
        _steps(run, confirmed),
        _verdicts("Postconditions", run.status.postconditions),
        _left(run),
        _unconfirmed(run, confirmed),
        _history(run),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(run: RunbookRun) -> str:
    spec, status, meta = run.spec, run.status, run.metadata
    title = spec.content.title or spec.runbook.name
    rows = [
        ("run", f"{meta.namespace}/{meta.name} ({meta.uid})"),
        ("runbook", f"{spec.runbook.name} version {spec.runbook.version} ({spec.runbook.source})"),
        ("hash", spec.runbook.hash),
        ("started by", status.author),
        ("carried out by", ", ".join(_people(run)) or "nobody"),
        # A runbook may ask for it: for the override that it makes.
        ("reason", spec.reason or spec.parameters.get("reason") or "none given"),
        ("started", status.started_at or "not started"),
        ("ended", status.ended_at or "not ended"),
        ("result", " ".join(part for part in (status.phase, _in_brackets(status.reason)) if part)),
        ("message", status.message),
        *((f"parameter {name}", value) for name, value in sorted(spec.parameters.items())),
    ]
    return "\n".join([f"# {_cell(title)}", "", *_table(("", ""), [row for row in rows if row[1]])])


def _people(run: RunbookRun) -> list[str]:
    names = [*(line.by for line in run.status.history), *(record.by for record in run.status.steps)]
    return list(dict.fromkeys(name for name in names if name))


def _verdicts(title: str, verdicts: Sequence[RecordedVerdict]) -> str:
    if not verdicts:
        return ""
    rows = [(each.name, each.value, each.shown, each.message, each.time) for each in verdicts]
    columns = ("condition", "value", "evidence", "message", "since")
    return "\n".join([f"## {title}", "", *_table(columns, rows)])


def _steps(run: RunbookRun, confirmed: frozenset[str]) -> str:
    sections = [_step(step, record_of(run.status, step.id), confirmed) for step in run.spec.content.steps]
    return "\n\n".join(["## Steps", *sections])


def _step(step: RunbookStep, record: StepRecord, confirmed: frozenset[str]) -> str:
    facts = [
        f"{record.state}",
        f"by {record.by}" if record.by else "",
        f"from {record.started_at}" if record.started_at else "",
        f"to {record.ended_at}" if record.ended_at else "",
        f"{record.attempts} attempts" if record.attempts > 1 else "",
        f"answered {record.answer}" if record.answer else "",
        record.message,
    ]
    lines = [
        f"### {_cell(step.title or step.id)} (`{step.id}`)",
        "",
        _cell("; ".join(fact for fact in facts if fact)),
    ]
    if record.writes:
        columns = ("write", "object", "revision", "time", "audit")
        lines += ["", *_table(columns, [_write_row(write, confirmed) for write in record.writes])]
    elif record.state in (ACTING, ACTED, DONE) and record.object is not None:
        lines += ["", f"No answer to its write came; a read found it done: {NOT_CONFIRMED}."]
    if record.verdicts:
        rows = [(each.name, each.value, each.shown, each.message, each.time) for each in record.verdicts]
        lines += ["", *_table(("condition", "value", "evidence", "message", "since"), rows)]
    return "\n".join(lines)


def _write_row(write: RecordedWrite, confirmed: frozenset[str]) -> tuple[str, ...]:
    verb = f"{'undo: ' if write.undo else ''}{write.verb}"
    named = f"{write.object.kind} {write.object.namespace}/{write.object.name}" if write.object else ""
    answer = "" if write.code == 200 else f", answer {write.code or 'lost'}"
    return verb + answer, named, str(write.revision or ""), write.time, _audit(write, confirmed)


def _audit(write: RecordedWrite, confirmed: frozenset[str]) -> str:
    if not write.audit_id:
        return NOT_CONFIRMED
    return f"`{write.audit_id}`" + ("" if write.audit_id in confirmed else f" {NOT_CONFIRMED}")


def _left(run: RunbookRun) -> str:
    """What may still be there."""
    rows = []
    for step in run.spec.content.steps:
        record = record_of(run.status, step.id)
        lasting = record.state in (ACTING, ACTED, DONE, KEPT, UNDOING, UNDO_FAILED)
        if lasting and record.object is not None and step.action.delete is None:
            ref = record.object
            rows.append((step.id, f"{ref.kind} {ref.namespace}/{ref.name}", ref.uid, record.state))
    if not rows:
        return ""
    title = "## What the run made and did not undo"
    return "\n".join([title, "", *_table(("step", "object", "UID", "state"), rows)])


def _unconfirmed(run: RunbookRun, confirmed: frozenset[str]) -> str:
    writes = [(record.id, write) for record in run.status.steps for write in record.writes]
    missing = [(id_, write) for id_, write in writes if not write.audit_id or write.audit_id not in confirmed]
    if not missing:
        return "## Audit\n\nThe audit log confirms every write of the run." if writes else ""
    rows = [(id_, write.verb, write.audit_id or "no answer came", write.time) for id_, write in missing]
    text = "The audit log does not confirm these writes (it may have lost them, or they did not happen):"
    return "\n".join(["## Audit", "", text, "", *_table(("step", "write", "audit id", "time"), rows)])


def _history(run: RunbookRun) -> str:
    if not run.status.history:
        return ""
    rows = [(line.time, line.by, line.text) for line in run.status.history]
    return "\n".join(["## History", "", *_table(("time", "by", "what"), rows)])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(columns)} |",
        f"|{' --- |' * len(columns)}",
        *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows),
    ]


def _cell(text: str) -> str:
    """On one line, and no end of a cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def _in_brackets(text: str) -> str:
    return f"({text})" if text else ""
