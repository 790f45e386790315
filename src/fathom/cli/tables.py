"""Tables of answers: aligned columns; on a terminal, the last one is wrapped within itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fathom.model.times import SECOND_NS, human_duration
from fathom.terminal import say, terminal_width, visible, wrapped

GAP = "   "
LAST_MIN = 24  # A narrower last column is hard to read: its rows are wrapped as other lines are.
UUID = 36
SHORT_ID = 8

Row = Sequence[str]


def say_table(rows: Sequence[Row]) -> None:
    """The first row is the head."""
    width = terminal_width() if sys.stdout.isatty() else None
    head, *lines = table_lines(rows, width)
    say(head, style="bold")
    say(*lines)


def table_lines(rows: Sequence[Row], width: int | None = None) -> list[str]:
    """`width` None: a row is one line, however long."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    left = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    wraps = width is not None and left + widths[-1] > width and left + LAST_MIN <= width
    return [line for row in shown for line in _lines(row, widths, width - left if wraps and width else None)]


def _lines(row: Row, widths: Sequence[int], last_width: int | None) -> Iterator[str]:
    *cells, last = row
    start = "".join(f"{cell:<{width}}{GAP}" for cell, width in zip(cells, widths, strict=False))
    first, *more = (list(wrapped(last, last_width)) if last_width else [last]) or [""]
    yield (start + first).rstrip()
    yield from (" " * len(start) + part for part in more)


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key by which numbers in names count as numbers."""
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def by_name(obj: Mapping[str, Any]) -> Any:
    """A key by which objects are listed: by namespace and name, node-2 before node-10."""
    meta = obj.get("metadata") or {}
    return natural(str(meta.get("namespace") or "")), natural(str(meta.get("name") or ""))


def age(time_ns: int, now_ns: int) -> str:
    """'3h12m', as kubectl's columns; never before now, as clocks differ a little."""
    return human_duration(max(0, now_ns - time_ns) / SECOND_NS)


def short_id(id_: str) -> str:
    """The beginning of a UUID tells two apart; ids that are made of words and numbers stay whole."""
    return id_[:SHORT_ID] if len(id_) == UUID and id_.count("-") == 4 else id_
