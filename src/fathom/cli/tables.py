"""Tables of answers: aligned columns, which on a terminal are wrapped at words within themselves."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from fathom.model.times import SECOND_NS, human_duration
from fathom.terminal import say, terminal_width, visible, wrapped

GAP = "   "
COLUMN_MIN = 24  # A text in a narrower column is hard to read.
UUID = 36
SHORT_ID = 8

Row = Sequence[str]


def say_table(rows: Sequence[Row]) -> None:
    """The first row is the head."""
    width = terminal_width() if sys.stdout.isatty() else None
    head, *others = laid_out(rows, width)
    say(*head, style="bold")
    say(*(line for row in others for line in row))


def table_lines(rows: Sequence[Row]) -> list[str]:
    """Each row as one line."""
    return [line for row in laid_out(rows, None) for line in row]


def laid_out(rows: Sequence[Row], width: int | None) -> list[list[str]]:
    """The lines of each row; `width` None: one, however long. Cells are wrapped at words in their columns,
    the widest first, if the table fits then; else whole rows are, when they are printed."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    if width is not None:
        least = [
            max(min(column_width, COLUMN_MIN), *map(_longest_word, column))
            for column_width, column in zip(widths, zip(*shown, strict=True), strict=True)
        ]
        widths = _narrowed(widths, least, width - len(GAP) * (len(widths) - 1)) or widths
    return [list(_lines(row, widths)) for row in shown]


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit; [] if there are none."""
    if sum(least) > room:
        return []
    fitting = list(widths)
    while sum(fitting) > room:
        at = max((at for at in range(len(fitting)) if fitting[at] > least[at]), key=fitting.__getitem__)
        fitting[at] -= 1
    return fitting


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _lines(row: Row, widths: Sequence[int]) -> Iterator[str]:
    cells = [
        list(wrapped(cell, width)) if len(cell) > width else [cell]
        for cell, width in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*cells, fillvalue=""):
        yield GAP.join(f"{part:<{width}}" for part, width in zip(parts, widths, strict=True)).rstrip()


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
