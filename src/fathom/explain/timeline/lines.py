"""Timelines as numbered lines for readers: who did what, and because of which lines before.

1  12:00:01.204  autoscaler       sets spec.replicas of deployment risk-api to 8
2  12:00:01.310  pod risk-api-7   enters the queue of scheduler  (because of 1)
   … 42 s, nothing
3  12:00:43.002  scheduler        chooses node-c12 for pod risk-api-7  (because of 2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from fathom.explain.timeline.decision_path import path_lines
from fathom.explain.timeline.timeline import Timeline
from fathom.model.times import SECOND_NS, moment_ns, timestamp

# A shorter silence shows in the times themselves.
QUIET_S = 10.0
WHO_WIDTH_MAX = 34


class Line(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float  # Since `origin_ns`.
    who: str
    what: str
    because: tuple[int, ...] = ()  # Numbers of lines, from 1.
    fault: bool = False
    culprit: str = ""  # 'lost reply', 'stale read': a possible cause of a failed run.
    probably: tuple[int, ...] = ()  # Causes that are inferred, not recorded.
    count: int = 1
    until_s: float = 0.0  # When the last of `count` happened.
    details: tuple[str, ...] = ()  # Of a decision: its path, in lines of their own where they are wanted.


def lines_of(timeline: Timeline, *, origin_ns: int = 0) -> tuple[Line, ...]:
    numbers = {entry.id: number for number, entry in enumerate(timeline.entries, 1)}
    recorded: dict[str, list[int]] = {}
    inferred: dict[str, list[int]] = {}
    for edge in timeline.edges:
        if edge.cause in numbers and edge.effect in numbers:
            causes = inferred if edge.inferred else recorded
            causes.setdefault(edge.effect, []).append(numbers[edge.cause])
    return tuple(
        Line(
            at_s=(entry.time_ns - origin_ns) / SECOND_NS,
            who=entry.actor,
            what=entry.text,
            because=tuple(sorted(recorded.get(entry.id, ()))),
            fault=entry.source == "fault",
            culprit=entry.possible_cause,
            probably=tuple(sorted(inferred.get(entry.id, ()))),
            count=entry.count,
            until_s=((moment_ns(entry.until) or 0) - origin_ns) / SECOND_NS if entry.until else 0.0,
            details=tuple(path_lines(entry)),
        )
        for entry in timeline.entries
    )


def clock(at_s: float) -> str:
    """'01:02.003', since the beginning."""
    minutes, seconds = divmod(max(0.0, at_s), 60)
    return f"{int(minutes):02d}:{seconds:06.3f}"


def time_of_day(at_s: float) -> str:
    """'13:01:02.003' in UTC, of seconds since the epoch."""
    milliseconds = round(at_s * 1000) % 86_400_000
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"


def day(at_s: float) -> str:
    """'2026-11-16' in UTC, of seconds since the epoch."""
    return timestamp(round(at_s * SECOND_NS))[:10]


def as_text(
    lines: Sequence[Line],
    *,
    show_time: Callable[[float], str] = clock,
    quiet_s: float | None = None,
    start: int = 0,
    wide: bool = False,
    show_day: Callable[[float], str] | None = None,
) -> Iterator[str]:
    """`quiet_s`: a silence of this length gets a line of its own; None: none does. `start`: how many lines
    were shown before. `wide`: with the details. `show_day`: a line where another day begins."""
    width = min(WHO_WIDTH_MAX, max((len(_who(line)) for line in lines), default=0))
    ended_s = lines[0].at_s if lines else 0.0
    for number, line in enumerate(lines, 1):
        if number <= start:
            ended_s = max(ended_s, line.at_s, line.until_s)
            continue
        if quiet_s is not None and line.at_s - ended_s >= quiet_s:
            yield f"     … {_duration(line.at_s - ended_s)}, nothing"
        if show_day is not None and show_day(line.at_s) != show_day(ended_s):
            yield f"     {show_day(line.at_s)}"
        ended_s = max(ended_s, line.at_s, line.until_s)
        head = f"{number:>3}  {show_time(line.at_s)}  {_who(line):<{width}}"
        yield f"{head}  {line.what}{_ending(line, show_time)}"
        yield from (f"{'':>{len(head)}}  {detail}" for detail in line.details if wide)


def _ending(line: Line, show_time: Callable[[float], str]) -> str:
    until = f", until {show_time(line.until_s)}" if line.until_s else ""
    times = f"  ({line.count} times{until})" if line.count > 1 else ""
    because = f"because of {', '.join(map(str, line.because))}" if line.because else ""
    probably = f"probably because of {', '.join(map(str, line.probably))}" if line.probably else ""
    causes = "; ".join(part for part in (because, probably) if part)
    return f"{times}  ({causes})" if causes else times


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _who(line: Line) -> str:
    return f"!! {line.who}" if line.fault else line.who


def gap_lines(timeline: Timeline) -> list[str]:
    return [f"no data: {gap.source}: {gap.why}" for gap in timeline.gaps]
