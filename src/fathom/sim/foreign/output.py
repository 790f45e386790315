"""What a foreign program prints and logs: kept by its machine, for the report of a failing run."""

from __future__ import annotations

import io
from collections import deque

LINES_MAX = 200


class ProgramOutput(io.TextIOBase):
    """Takes the place of sys.stdout and sys.stderr. Keeps the last lines."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        self.lines.extend(lines)
        return len(text)

    def last(self, count: int) -> list[str]:
        return [*self.lines, *([self._begun] if self._begun else [])][-count:]

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False
