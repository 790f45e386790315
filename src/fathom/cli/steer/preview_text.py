"""A preview in plain words: the two futures side by side, what the end does, and what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fathom.kinds.preview_answer import WHAT_IF, Counts, Outcome, Preview, RunFuture
from fathom.model.objects import Obj

Values = dict[str, int]
COLUMNS = ("", "now", "without it", "with it", "difference")
SAME = "no difference"
TOUCHED_SHOWN = 8


def preview_of(status: dict[str, Any]) -> Preview:
    return msgspec.convert(status, Preview)


def preview_lines(preview: Preview, *, name: str, target: str, file: str) -> list[str]:
    """`name`: 'shop/web-recovery'. `target`: as the override names it. `file`: for the command at the end."""
    if preview.refused is not None:
        return future_lines(preview, name=name, target=target)
    return [
        *future_lines(preview, name=name, target=target),
        "",
        f"Token: {preview.token}",
        f"Create it, if nothing that this rests on has moved:  fathom override create -f {file} "
        f"--from-preview {preview.token}",
    ]


def future_lines(preview: Preview, *, name: str, target: str) -> list[str]:
    """What would happen, without the command that makes it happen."""
    if preview.refused is not None:
        return [f"The API server would refuse the override {name}: {preview.refused.message}"]
    body = _what_if_lines(preview) if preview.method == WHAT_IF else _fork_lines(preview, target)
    return [*_head(preview, name), *body]


def run_lines(preview: Preview) -> list[str]:
    """What a whole run would do."""
    if preview.refused is not None:
        return [f"The API server would refuse the run: {preview.refused.message}"]
    lines = [f"{line.seconds:7.1f} s  {line.line}" for run in preview.runs for line in run.lines]
    return [*_tried("All steps", preview), *lines, *_ends(preview), "", *_fork_lines(preview, "all pods")]


def _ends(preview: Preview) -> list[str]:
    """How it ended, and where forks differ, in how many of them."""
    counts = Counter(_end(run, preview.seconds) for run in preview.runs)
    return [f"{text} ({count} of {len(preview.runs)} forks)" for text, count in counts.items()]


def _end(run: RunFuture, counted_s: float) -> str:
    about = f": {run.message}" if run.message else ""
    if run.seconds is not None:
        return f"{run.phase}{about}"
    return f"{run.phase} after {counted_s / 60:g} minutes{about}"


def _head(preview: Preview, name: str) -> list[str]:
    if preview.method == WHAT_IF:
        how = f"What the scheduler would decide with the override {name}, at revision {preview.revision}."
        return [how, f"No fork was run: {preview.reason}.", *preview.notes, ""]
    return _tried(f"The override {name}", preview)


def _tried(what: str, preview: Preview) -> list[str]:
    seeds = "1 fork" if len(preview.seeds) == 1 else f"{len(preview.seeds)} forks"
    how = f"{what}, tried in {seeds} of the cluster at revision {preview.revision}"
    return [f"{how}, for {preview.seconds / 60:g} minutes of virtual time.", *preview.notes, ""]


def _what_if_lines(preview: Preview) -> list[str]:
    lines = []
    for pod in preview.what_if:
        lines += [f"pod {pod.pod}", f"  now      {pod.now}", f"  with it  {pod.with_}"]
    return lines or ["No waiting pod is concerned."]


def _fork_lines(preview: Preview, target: str) -> list[str]:
    after = preview.after_the_end
    lines = _futures(preview.now, preview.without, preview.with_, target)
    if not preview.difference:
        lines += ["", "It changes none of these counts."]
    lines += _states(preview.override)
    if after is not None:
        since_s = after.seconds - preview.seconds
        end = f"{since_s / 60:.0f} minutes later, after its end"
        if after.difference and after.difference == preview.difference:
            lines += ["", f"{end}, the same counts still differ, and by as much."]
        elif after.difference:
            lines += ["", f"{end}:", *_futures(preview.now, after.without, after.with_, target)]
        else:
            lines += ["", f"{end}, both futures are alike in all counts."]
        lines += _residue(after.override)
    lines += [
        "",
        f"Not in the fork: {', '.join(each.name for each in preview.not_modelled)} (-o json says more).",
    ]
    if preview.touched:
        names = [_touched(each.kind, each.namespace, each.name) for each in preview.touched]
        more = f" and {len(names) - TOUCHED_SHOWN} more" if len(names) > TOUCHED_SHOWN else ""
        lines.append(f"It rests on: {', '.join(names[:TOUCHED_SHOWN])}{more}.")
    return lines


def _states(status: Obj) -> list[str]:
    """What became of each change."""
    changes = status.get("changes") or ()
    return ["", *(_state(change) for change in changes)] if changes else []


def _state(change: Obj) -> str:
    why = change.get("message") or change.get("reason") or ""
    return f"{change.get('name')}: {change.get('state')}{f' ({why})' if why else ''}"


def _residue(status: Obj) -> list[str]:
    return [
        f"Left of it: {left.get('effect')} {left.get('object')}: {left.get('message')}"
        for left in status.get("residue") or ()
    ]


def _futures(
    now: Outcome | None, without: Sequence[Outcome], with_: Sequence[Outcome], target: str
) -> list[str]:
    """All counts of the target; of others, those that differ."""
    start = now or Outcome(seed="")
    rows: list[tuple[str, ...]] = [COLUMNS]
    for title, values_of, all_rows in (
        (target, _target_values, True),
        ("other pods", _other_values, False),
        ("workloads", _replicas, False),
    ):
        section = list(_rows(values_of(start), [*map(values_of, without)], [*map(values_of, with_)]))
        shown = [row for row in section if all_rows or row[-1] != SAME]
        if shown:
            rows += [(title, "", "", "", ""), *((f"  {row[0]}", *row[1:]) for row in shown)]
    return _aligned(rows)


def _rows(now: Values, without: Sequence[Values], with_: Sequence[Values]) -> Iterator[tuple[str, ...]]:
    for label in dict.fromkeys(label for values in (now, *without, *with_) for label in values):
        before = [values.get(label, 0) for values in without]
        after = [values.get(label, 0) for values in with_]
        change = [b - a for a, b in zip(before, after, strict=True)]
        difference = SAME if not any(change) else _spread(change, sign="+")
        yield label, str(now.get(label, 0)), _spread(before), _spread(after), difference


def _spread(values: Sequence[int], *, sign: str = "") -> str:
    """'3', or '2..4' where seeds differ."""
    least, most = min(values), max(values)
    texts = [f"{value:+d}" if sign and value else str(value) for value in (least, most)]
    return texts[0] if least == most else "..".join(texts)


def _target_values(outcome: Outcome) -> Values:
    return _values(outcome.target)


def _values(counts: Counts) -> Values:
    bound = {f"in zone {zone}" if zone else "in no zone": pods for zone, pods in sorted(counts.bound.items())}
    rest = {"ready": counts.ready, "without a node": counts.pending, "evicted": counts.evicted}
    return {**bound, **rest}


def _other_values(outcome: Outcome) -> Values:
    """Of pods that are not the target's."""
    every, ours = _values(outcome.cluster), _values(outcome.target)
    return {label: count - ours.get(label, 0) for label, count in every.items()}


def _replicas(outcome: Outcome) -> Values:
    return {f"{name} replicas": count for name, count in outcome.replicas.items()}


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        ).rstrip()
        for row in rows
    ]


def _touched(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
