"""An explanation as lines for a terminal: the first line says it all, the rest is the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fathom.cli.ask.typed_commands import for_this_machine
from fathom.cli.tables import short_id

NODES_SHOWN = 5
# Kinds whose freshness is always shown; others only where the view was behind, or in wide output.
ALWAYS_FRESH = frozenset({"Pod", "Node"})

RECORDED_MARK = " [recorded, without the change]"
RECORDED_NOTE = (
    "recorded lines, and outcome, considered and revisions used, are of the last decision, which was made"
    " without the change; the rest is asked again with it"
)

Document = Mapping[str, Any]


def explanation_lines(document: Document, *, wide: bool = False, what_if: bool = False) -> list[str]:
    """`what_if`: objects are assumed to be other than they are. The decision was made again with them; what
    is on record was not, and is marked."""
    evidence = _evidence(document, wide=wide, what_if=what_if)
    lines = [summary_line(document), *(f"  {line}" for line in evidence)]
    return [*lines, f"  {RECORDED_NOTE}"] if what_if and any(map(_is_recorded, lines)) else lines


def _is_recorded(line: str) -> bool:
    return line.lstrip().startswith(("recorded:", "revisions used:")) or line.endswith(RECORDED_MARK)


def stuck_lines(document: Document) -> list[str]:
    """A line and a command for each object that is stuck, the worst first."""
    items = document.get("items") or ()
    listed = [line for item in items for line in (summary_line(item), *command_lines(item))]
    return [*listed, *moment_lines(document), *([] if items else ["nothing is stuck"])]


def summary_line(document: Document) -> str:
    """With the command that it names, if any, as it can be typed on this machine."""
    command = str((document.get("change") or {}).get("command") or "")
    summary = str(document.get("summary"))
    return summary.replace(command, for_this_machine(command)) if command else summary


def moment_lines(document: Document) -> list[str]:
    """Of which moment the answer is, and from where, where it is about the past."""
    as_of = document.get("asOf")
    if not as_of:
        return []
    tapes = " and ".join(as_of.get("tapes") or ())
    source = f"tape of {tapes}" if as_of.get("source") == "tape" else as_of.get("source")
    return [f"as of revision {as_of.get('revision')} at {as_of.get('time')}, from the {source}"]


def override_lines(document: Document) -> list[str]:
    """One line for each override that is active for the subject."""
    subject = _subject_word(document)
    return [
        f"override {each['name']} (by {each['author'] or 'somebody unknown'}, ends in {each['endsIn']})"
        f" is active for this {subject}: {', '.join(each['changes'])}"
        for each in document.get("activeOverrides") or ()
    ]


def _subject_word(document: Document) -> str:
    resource = (document.get("subject") or {}).get("resource")
    return {"pods": "pod", "nodes": "node"}.get(str(resource), "workload")


def _evidence(document: Document, *, wide: bool, what_if: bool) -> Iterator[str]:
    yield from moment_lines(document)
    yield from _change(document)
    yield from override_lines(document)
    yield from (f"fight: {line}" for line in document.get("fights") or ())
    for group in document.get("groups") or ():
        yield _group(group, wide=wide) + (RECORDED_MARK if what_if and group.get("recorded") else "")
    for group in document.get("causes") or ():
        names = ", ".join(group.get("objects") or ())
        yield f"{group['count']:>5}  {group['cause']}" + (f": {names}" if names else "")
    if wide:
        yield from _nodes(document)
    for detail in document.get("details") or ():
        yield from (f"{detail['title']}: {line}" for line in detail.get("lines") or ())
    yield from _queue(document)
    yield from _decisions(document, wide=wide)
    yield from _freshness(document, wide=wide)
    yield from _now(document)
    if document.get("nextTrigger"):
        yield f"next: {document['nextTrigger']}"
    for related in document.get("related") or ():
        yield f"see also: {related['resource'].partition('.')[0]}/{related['name']}"
    for gap in document.get("gaps") or ():
        yield f"no data: {gap.get('source')}: {gap.get('why')}"


def _now(document: Document) -> Iterator[str]:
    """The decision made again. For a pod that waits, the same result is in the lines above."""
    now = document.get("now")
    if not now or not (document.get("decisions") or document.get("asWanted")):
        return
    if now.get("differs"):
        yield f"decided again now: another result: {now.get('answer')}"
    elif document.get("asWanted"):
        yield f"decided again now: the same result: {now.get('answer')}"
    else:
        yield "decided again now: the same result"


def command_lines(document: Document) -> list[str]:
    """The proposed change as it can be typed, unless the first line has it already."""
    change = document.get("change") or {}
    if not change.get("command") or change["command"] in change.get("what", ""):
        return []
    return [f"  $ {for_this_machine(change['command'])}"]


def _change(document: Document) -> Iterator[str]:
    change = document.get("change") or {}
    yield from (line.strip() for line in command_lines(document))
    if change.get("oneOf", 1) > 1:
        yield f"one of {change['oneOf']} changes of the same size that would do"
    for other in document.get("changes") or ():
        yield f"or: {for_this_machine(str(other.get('what')))} ({other.get('who')})"


def _group(group: Document, *, wide: bool) -> str:
    nodes = group.get("nodes") or ()
    shown = nodes if wide else nodes[:NODES_SHOWN]
    more = f" and {len(nodes) - len(shown)} more" if len(shown) < len(nodes) else ""
    names = f": {', '.join(shown)}{more}" if shown else ""
    return f"{group['count']:>5}  {group['reason']}{names}"


def _nodes(document: Document) -> Iterator[str]:
    rows = document.get("nodes") or ()
    width = max((len(str(row["node"])) for row in rows), default=0)
    for row in rows:
        score = row.get("score")
        verdict = row.get("reason") or ("fits" if score is None else f"fits, {score} points")
        yield f"{row['node']:<{width}}  {verdict}"


def _queue(document: Document) -> Iterator[str]:
    queue = document.get("queue")
    if not queue:
        return
    when = "" if queue.get("source") == "queue" else " at the last attempt"
    ahead = f"ahead of it: {', '.join(queue['ahead'])}" if queue.get("ahead") else ""
    # The first line of a pod that waits for its turn has its place.
    place = "" if document.get("stage") == "queued" and not when else f"{queue['place']} of {queue['of']}"
    if place or ahead:
        yield f"place in the queue{when}: {'; '.join(part for part in (place, ahead) if part)}"


def _decisions(document: Document, *, wide: bool) -> Iterator[str]:
    decisions = document.get("decisions") or ()
    for decision in decisions if wide else decisions[-1:]:
        node = f" {decision['node']}" if decision.get("node") else ""
        id_ = str(decision["id"]) if wide else short_id(str(decision["id"]))
        yield (
            f"recorded: {decision['verdict']}{node} {id_} at {decision['time']},"
            f" attempt {decision['attempt']}, after {decision['queuedMs']} ms in the queue,"
            f" woken by {decision['cause']}"
        )
        if decision.get("outcome"):
            yield f"outcome: {decision['outcome']}"
        yield from (f"preempted: {victim}" for victim in decision.get("victims") or ())
        if decision.get("considered"):
            yield f"considered: {'; '.join(decision['considered'])}"


def _freshness(document: Document, *, wide: bool) -> Iterator[str]:
    shown = [
        f"{seen['kind']} {seen['applied']} (latest {seen['latest']}, {seen['ageMs']} ms old)"
        for seen in document.get("freshness") or ()
        if wide or seen["kind"] in ALWAYS_FRESH or seen["applied"] < seen["latest"]
    ]
    if shown:
        yield f"revisions used: {'; '.join(shown)}"
