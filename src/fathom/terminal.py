"""Output to a user's terminal: control characters in texts of the cluster are shown as escapes.

Any client of the API can choose names, messages and reasons. A terminal obeys some characters instead of
showing them: they could move the cursor over other lines, set its title, or turn the reading direction. So
every line is written through `say`, which escapes them; a line stays one line.

On a terminal, long lines are wrapped at words, and some are styled. In a pipe nothing is wrapped: programs
take lines apart. NO_COLOR (no-color.org) and TERM=dumb mean no style.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Literal, TextIO

# C0, DEL and C1; marks and overrides of the reading direction; characters that some programs take for line
# ends; halves of surrogate pairs, which no encoding can write.
_DIRECTIONS = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_OBEYED = re.compile(f"[\x00-\x1f\x7f-\x9f{_DIRECTIONS}\ud800-\udfff]")
_NOT_ESCAPED_BY_JSON = re.compile(f"[\x7f-\x9f{_DIRECTIONS}]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
Style = Literal["", "bold", "red", "yellow"]
_CODES = {"bold": "1", "red": "31", "yellow": "33"}
HANGING = 4  # What follows the first line of a wrapped one is further in.
WIDTH_MIN, WIDTH_IN_A_PIPE = 20, 80
COMMAND = "$ "  # A command to copy: a terminal that wraps it by itself copies it as one line.


def visible(text: str) -> str:
    """The text as one line without characters that a terminal obeys."""
    return _OBEYED.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return _SHORT.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}")


def escaped_json(document: str) -> str:
    """The same JSON; characters that JSON need not escape but terminals obey are written as \\uXXXX."""
    if document.isascii() and "\x7f" not in document:
        return document  # Most are.
    return _NOT_ESCAPED_BY_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", document)


def say(*lines: str, err: bool = False, style: Style = "") -> None:
    """Print each text as one line; on a terminal, wrapped at words."""
    stream = sys.stderr if err else sys.stdout
    shown = list(map(visible, lines))
    if stream.isatty():
        width = terminal_width()
        shown = [part for line in shown for part in _wrapped_line(line, width)]
    _write("".join(f"{_styled(line, style, stream)}\n" for line in shown), err=err)


def say_text(text: str) -> None:
    """Print our own text of several lines; characters within a line are escaped."""
    say(*text.removesuffix("\n").split("\n"))


def say_document(text: str, *, err: bool = False) -> None:
    """Print a document of several lines, which must stay as they are: never wrapped. Characters that a
    terminal obeys are escaped."""
    lines = text.removesuffix("\n").split("\n")
    _write("".join(f"{visible(line)}\n" for line in lines), err=err)


def terminal_width() -> int:
    """The width in which texts are laid out: COLUMNS, else that of the terminal of stdout or stderr."""
    width = os.environ.get("COLUMNS", "")
    if not width.isdecimal() or not int(width):
        width = str(next(filter(None, map(_width_of, (1, 2))), WIDTH_IN_A_PIPE))
    return max(WIDTH_MIN, int(width))


def _width_of(descriptor: int) -> int:
    """0 if it is no terminal, or does not know."""
    try:
        return os.get_terminal_size(descriptor).columns
    except OSError:
        return 0


def wrapped(text: str, width: int, *, indent: int = 0) -> Iterator[str]:
    """The text in lines of at most this width, unless a word alone is longer; `indent`: of all but the
    first."""
    yield from textwrap.wrap(
        text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _wrapped_line(line: str, width: int) -> Iterator[str]:
    own_indent = len(line) - len(line.lstrip())
    if len(line) <= width or line[own_indent:].startswith(COMMAND):
        yield line
    else:
        yield from wrapped(line, width, indent=min(own_indent + HANGING, width // 2))


def has_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _styled(line: str, style: Style, stream: TextIO) -> str:
    return f"\x1b[{_CODES[style]}m{line}\x1b[0m" if style and line and has_colour(stream) else line


def say_exactly(text: str) -> None:
    """Print a text that the user composed: nothing is added but, on a terminal, the end of its last line.
    Other characters that a terminal obeys are escaped."""
    lines = ["\t".join(map(visible, line.split("\t"))) for line in text.split("\n")]
    ended = "\n" if lines[-1] and sys.stdout.isatty() else ""
    _write("\n".join(lines) + ended)


def say_json(document: str) -> None:
    """Print a JSON document for programs: equal to the original when parsed."""
    _write(f"{escaped_json(document)}\n")


def rewrite_line(text: str) -> None:
    """On stderr: replace the line that the cursor is in. A longer line than the terminal's would go on in the
    next one, and stay there."""
    _write(f"\r\x1b[K{visible(text)[: terminal_width() - 1]}", err=True)


def _write(text: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
