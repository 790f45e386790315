"""Lines of a page: pieces of text with a style, and which object a line is about. Pure.

Every text goes through `visible`, so that no character of the cluster reaches the terminal as a command. The
pieces are drawn as they are: nothing parses them for markup.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from fathom.terminal import visible, wrapped

PieceStyle = Literal["", "bold", "dim", "red", "yellow", "green", "cyan"]
CUT = "…"


class Piece(NamedTuple):
    text: str
    style: PieceStyle = ""


class Subject(NamedTuple):
    """An object that can be opened: the resource or kind, as questions take it."""

    kind: str
    namespace: str
    name: str


class PageLine(msgspec.Struct, frozen=True):
    pieces: tuple[Piece, ...] = ()
    subject: Subject | None = None  # What Enter opens.
    command: str = ""  # What `c` copies, as it was proposed.
    starts: bool = False  # The first line of what can be selected.

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


def line(*pieces: Piece | str, **about: object) -> PageLine:
    """Texts are made visible here, once for all."""
    shown = (piece if isinstance(piece, Piece) else Piece(piece) for piece in pieces)
    clean = tuple(Piece(visible(piece.text), piece.style) for piece in shown)
    return PageLine(clean, **about)  # type: ignore[arg-type]  # The fields of PageLine.


def cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def cut(text: str, width: int) -> str:
    """The text in at most so many cells."""
    if cells(text) <= width:
        return text
    used, kept = 0, []
    for char in text:
        used += _cells_of(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + CUT if width > 0 else ""


def padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cells(text))


def paragraph(text: str, width: int, *, indent: int = 0, lines_max: int = 0) -> list[str]:
    """The text in lines of this width, at words where it can be; the rest is cut if `lines_max` is given."""
    shown = [
        part
        for each in wrapped(visible(text), max(8, width), indent=indent)
        for part in chopped(each, max(8, width))
    ]
    if lines_max and len(shown) > lines_max:
        rest = shown[lines_max - 1]
        shown = [*shown[: lines_max - 1], cut(rest + CUT * 2, min(max(8, width), cells(rest) + 1))]
    return shown


def chopped(text: str, width: int) -> Iterator[str]:
    """The text in lines of this width, wherever they end: of a word that is longer, and of a command."""
    while cells(text) > width:
        end = width
        while cells(text[:end]) > width:
            end -= 1
        yield text[:end]
        text = text[end:]
    yield text


def table(rows: Sequence[Sequence[str]], width: int, *, gap: int = 2) -> list[str]:
    """Rows with aligned columns, each in one line: the widest columns are cut first."""
    if not rows:
        return []
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(cells, column)) for column in zip(*shown, strict=True)]
    room = width - gap * (len(widths) - 1)
    while sum(widths) > room and max(widths) > 4:
        widths[widths.index(max(widths))] -= 1
    spaces = " " * gap
    return [
        cut(spaces.join(padded(cut(cell, w), w) for cell, w in zip(row, widths, strict=True)).rstrip(), width)
        for row in shown
    ]


def beside(left: Sequence[PageLine], right: Iterable[PageLine], *, width: int) -> list[PageLine]:
    """Two columns: what can be selected is in the left one, which is `width` wide."""
    rest = list(right)
    joined = []
    for at in range(max(len(left), len(rest))):
        first = left[at] if at < len(left) else PageLine()
        gap = Piece(" " * max(0, width - cells(first.text)))
        second = rest[at].pieces if at < len(rest) else ()
        pieces = (*first.pieces, *((gap, *second) if second else ()))
        joined.append(msgspec.structs.replace(first, pieces=pieces))
    return joined


def plain(lines: Iterable[PageLine]) -> list[str]:
    return [each.text.rstrip() for each in lines]
