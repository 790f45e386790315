"""What a foreign program prints and logs: kept by its machine, for the report of a failing run."""

from __future__ import annotations

import io
from collections import deque
from typing import Any

LINES_MAX = 200


class ProgramOutput(io.TextIOBase):
    """Takes the place of sys.stdout and sys.stderr. Keeps the last lines."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self._begun = ""

    @property
    def buffer(self) -> Bytes:
        return Bytes(self)

    def reconfigure(self, **_: object) -> None:
        """Lines are kept at once, as UTF-8."""

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


class Bytes(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, output: ProgramOutput) -> None:
        super().__init__()
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._output.write(bytes(data).decode(errors="replace"))
        return len(data)
