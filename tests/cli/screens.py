"""What a terminal shows: a small interpreter of the sequences that full-screen programs write."""

from __future__ import annotations

import re
import time
import unicodedata

from tests.cli.terminals import Terminal

SEQUENCE = re.compile(
    r"\x1b\[(?P<private>[?<>=]?)(?P<numbers>[0-9;:]*)[ -/]*(?P<final>[@-~])"  # CSI
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC
    r"|\x1bP[^\x1b]*\x1b\\"  # DCS
    r"|\x1b[@-_=>78()][0B]?"
)
PATIENCE_S = 60.0


class Screen:
    """Rows of characters. Sequences of styles are counted, not drawn."""

    def __init__(self, *, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.colours = 0  # Sequences that set a colour.
        self.full_screen = False  # The alternate screen.
        self.cursor = True
        self._rest = ""

    def feed(self, text: str) -> None:
        text, at = self._rest + text, 0
        while at < len(text):
            match = SEQUENCE.match(text, at) if text[at] == "\x1b" else None
            if match is not None:
                self._obey(match)
                at = match.end()
            elif text[at] == "\x1b" and len(text) - at < 4096:
                break  # The rest of it has not arrived yet.
            else:
                self._put(text[at])
                at += 1
        self._rest = text[at:]

    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]

    def text(self) -> str:
        return "\n".join(self.lines())

    def _obey(self, match: re.Match[str]) -> None:
        if match["final"] is None:
            return
        final, numbers = match["final"], [int(part or 0) for part in re.split("[;:]", match["numbers"] or "")]
        if match["private"] == "?" and final in "hl":
            if 1049 in numbers:
                self.full_screen = final == "h"
            if 25 in numbers:
                self.cursor = final == "h"
        elif final in {"H", "f"}:
            self.row = max(0, numbers[0] - 1)
            self.column = max(0, (numbers[1] if len(numbers) > 1 else 1) - 1)
        elif final == "J":
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif final == "K":
            self._row()[self.column :] = [" "] * (self.columns - self.column)
        elif final == "m" and any(30 <= number <= 37 or 90 <= number <= 97 for number in numbers):
            self.colours += 1
        elif final in "ABCD":
            step = max(1, numbers[0])
            self.row += {"A": -step, "B": step}.get(final, 0)
            self.column += {"C": step, "D": -step}.get(final, 0)

    def _put(self, char: str) -> None:
        if char == "\n":
            self.row += 1
        elif char == "\r":
            self.column = 0
        elif ord(char) >= 32 and self.column < self.columns:
            self._row()[self.column] = char
            self.column += 1
            if unicodedata.east_asian_width(char) in {"W", "F"} and self.column < self.columns:
                self._row()[self.column] = ""
                self.column += 1

    def _row(self) -> list[str]:
        return self.cells[min(self.row, self.rows - 1)]


class ScreenTerminal:
    """A program in a terminal, and the screen that it draws."""

    def __init__(self, terminal: Terminal, screen: Screen) -> None:
        self.terminal, self.screen = terminal, screen
        self.raw = ""  # All that was written.

    def wait_for(self, text: str, *, absent: bool = False) -> list[str]:
        """The screen once it shows the text, or no longer does. Lines that are wrapped count as one."""
        until = time.monotonic() + PATIENCE_S
        while (text in _joined(self.screen)) == absent:
            if time.monotonic() > until:
                what = "is still shown" if absent else "was not shown"
                raise AssertionError(f"{text!r} {what}:\n{self.screen.text()}")
            written = self.terminal.read_now(0.2)
            self.raw += written
            self.screen.feed(written)
        return self.screen.lines()


def _joined(screen: Screen) -> str:
    return " ".join(screen.text().split())
