"""Page 2 as lines of a width. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathom.cli.ask.top import seen as what
from fathom.cli.ask.top.lines import (
    PageLine,
    Piece,
    PieceStyle,
    Subject,
    chopped,
    line,
    padded,
    paragraph,
    table,
)
from fathom.cli.ask.top.now_lines import WIDE
from fathom.cli.ask.top.workload_view import STAGES, GenerationItem, PodItem, RevisionItem, WorkloadView
from fathom.terminal import COMMAND, visible

BAR_MAX, BAR_MIN = 24, 6
STAGE_WIDTH = max(map(len, STAGES)) + 2
TIMELINE_SHOWN = 12
WHY, OBJECT, HISTORY, TIMELINE = "why", "object", "history", "timeline"  # Names of notes.


def workload_lines(view: WorkloadView, width: int, *, matching: str = "") -> list[PageLine]:
    return [
        *_why(view, width),
        PageLine(),
        _title("stages"),
        *_stages(view, width),
        PageLine(),
        _title("pods", len(view.pods)),
        *_pods(view, width, matching),
        PageLine(),
        _title("rollout history", len(view.history)),
        *_history(view, width),
        PageLine(),
        _title("what to type"),
        *_commands(view.commands, width),
        PageLine(),
        _title("evidence"),
        *_evidence(view, width),
        PageLine(),
        _title("timeline"),
        *_timeline(view, width),
    ]


def _title(name: str, count: int | None = None) -> PageLine:
    return line(Piece(name.upper() + ("" if count is None else f" {count}"), "bold"))


def _notes(view: WorkloadView, width: int, *names: str) -> Iterator[PageLine]:
    for name in names:
        if view.notes.get(name):
            yield from _wrapped(view.notes[name], width, "yellow")


# Why, and what to type.


def _why(view: WorkloadView, width: int) -> Iterator[PageLine]:
    yield _title("why")
    yield from _notes(view, width, WHY, OBJECT)
    style: PieceStyle = "green" if view.as_wanted else "red"
    for text in view.why[:1]:
        yield from _wrapped(text, width, style)
    if view.helps:
        yield from _commands([view.helps], width)


def _evidence(view: WorkloadView, width: int) -> Iterator[PageLine]:
    for each in view.why[1:]:
        yield from _wrapped(each.strip(), width)


def _wrapped(text: str, width: int, style: PieceStyle = "") -> Iterator[PageLine]:
    room = WIDE if width >= WIDE else width - 2
    yield from (line(Piece(f"  {part}", style)) for part in paragraph(text, room, indent=2))


def _commands(commands: Sequence[str], width: int) -> Iterator[PageLine]:
    room = WIDE if width >= WIDE else width - 4
    for command in commands:
        for number, part in enumerate(chopped(visible(command), room)):
            mark = f"  {COMMAND}" if number == 0 else "    "
            yield line(Piece(f"{mark}{part}", "cyan"), command=command, starts=number == 0)


# Stages.


def _stages(view: WorkloadView, width: int) -> Iterator[PageLine]:
    """A bar for each stage and generation: the new one left, the one before right."""
    yield from _notes(view, width, what.PROGRESS)
    generations = [each for each in (view.current, view.previous) if each is not None]
    if not generations:
        if what.PROGRESS not in view.notes:
            yield line("  nothing is counted for this object")
        return
    bar = max(BAR_MIN, min(BAR_MAX, (width - STAGE_WIDTH - 4) // len(generations) - 10))
    column = bar + 10
    titles = ("generation {} (new)", "generation {} (before)")
    heads = [titles[at].format(each.generation) for at, each in enumerate(generations)]
    yield line("  " + " " * STAGE_WIDTH + "".join(padded(head, column) for head in heads).rstrip())
    for stage in STAGES:
        yield line(Piece(f"  {stage:<{STAGE_WIDTH}}"), *_bars(generations, stage, bar=bar, column=column))
    for generation in generations:
        for text in generation.pending:
            yield from _wrapped(f"generation {generation.generation}: {text}", width, "yellow")


def _bars(generations: Sequence[GenerationItem], stage: str, *, bar: int, column: int) -> Iterator[Piece]:
    for generation in generations:
        count, wanted = generation.stages[stage], max(generation.desired, *generation.stages.values())
        full = 0 if not wanted else max(int(count > 0), bar * count // wanted)
        style: PieceStyle = "green" if count >= generation.desired else "yellow" if count else "red"
        yield Piece("█" * full + "░" * (bar - full), style)
        yield Piece(padded(f" {count}/{generation.desired}", column - bar))


# Pods, history, timeline.


def _pods(view: WorkloadView, width: int, matching: str) -> Iterator[PageLine]:
    yield from _notes(view, width, what.PODS)
    pods = [
        pod for pod in view.pods if matching.casefold() in f"{pod.name} {pod.status} {pod.node}".casefold()
    ]
    if not pods:
        if what.PODS not in view.notes:
            yield line("  none")
        return
    rows = [("NAME", "REVISION", "READY", "STATUS", "RESTARTS", "NODE", "AGE"), *map(_pod_row, pods)]
    head, *texts = table(rows, width - 2)
    yield line(Piece(f"  {head}", "dim"))
    for pod, text in zip(pods, texts, strict=True):
        subject = Subject("pod", view.namespace, pod.name)
        yield line(Piece(f"  {text}", _pod_style(pod)), subject=subject, starts=True)


def _pod_row(pod: PodItem) -> tuple[str, ...]:
    return (pod.name, pod.revision or "-", pod.ready, pod.status, pod.restarts, pod.node, pod.age)


def _pod_style(pod: PodItem) -> PieceStyle:
    ready, _, wanted = pod.ready.partition("/")
    if ready == wanted or pod.status == "Completed":
        return ""
    return "yellow" if pod.status in {"Pending", "ContainerCreating", "Running", "Terminating"} else "red"


def _history(view: WorkloadView, width: int) -> Iterator[PageLine]:
    yield from _notes(view, width, HISTORY)
    if not view.history:
        if HISTORY not in view.notes:
            yield line("  none")
        return
    rows = [("REVISION", "READY", "AGE", "IMAGES", "CHANGE-CAUSE"), *map(_revision_row, view.history)]
    head, *texts = table(rows, width - 2)
    yield line(Piece(f"  {head}", "dim"))
    yield from (line(f"  {text}") for text in texts)


def _revision_row(item: RevisionItem) -> tuple[str, ...]:
    current = " (current)" if item.current else ""
    return (
        f"{item.revision}{current}",
        f"{item.ready}/{item.replicas}",
        item.age,
        ", ".join(item.images),
        item.change_cause or "-",
    )


def _timeline(view: WorkloadView, width: int) -> Iterator[PageLine]:
    yield from _notes(view, width, TIMELINE)
    if not view.timeline and TIMELINE not in view.notes:
        yield line("  nothing is on record")
    room = WIDE if width >= WIDE else width - 2
    for text in view.timeline[-TIMELINE_SHOWN:]:
        yield from (line(f"  {part}") for part in paragraph(text, room, indent=4))
