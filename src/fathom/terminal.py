"""Output to a user's terminal: control characters in texts of the cluster are shown as escapes.

Any client of the API can choose names, messages and reasons. A terminal obeys some characters instead of
showing them: they could move the cursor over other lines, set its title, or turn the reading direction. So
every line is written through `say`, which escapes them; a line stays one line.
"""

from __future__ import annotations

import re
import sys

# C0, DEL and C1; marks and overrides of the reading direction; characters that some programs take for line
# ends; halves of surrogate pairs, which no encoding can write.
_DIRECTIONS = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_OBEYED = re.compile(f"[\x00-\x1f\x7f-\x9f{_DIRECTIONS}\ud800-\udfff]")
_NOT_ESCAPED_BY_JSON = re.compile(f"[\x7f-\x9f{_DIRECTIONS}]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


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


def say(*lines: str, err: bool = False) -> None:
    """Print each text as one line."""
    _write("".join(f"{visible(line)}\n" for line in lines), err=err)


def say_text(text: str, *, err: bool = False) -> None:
    """Print our own text of several lines; characters within a line are escaped."""
    say(*text.removesuffix("\n").split("\n"), err=err)


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
    """On stderr: replace the line that the cursor is in."""
    _write(f"\r\x1b[K{visible(text)}", err=True)


def _write(text: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
