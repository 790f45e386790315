"""Programs in a real terminal (a pty) of a chosen width, and what they wrote to it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

PATIENCE_S = 60.0
FATHOM = (sys.executable, "-m", "fathom.cli")


class Terminal:
    """A program that runs in a terminal of its own."""

    def __init__(
        self, command: Sequence[str], *, columns: int, env: Mapping[str, str], rows: int = 50
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.modes_before = termios.tcgetattr(theirs)
        own = {
            name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}
        }
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**own, "TERM": "xterm", **env},
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""
        self._bytes = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._ours >= 0:
            os.close(self._ours)

    def hang_up(self) -> int:
        """Close the terminal as a window is closed, or a connection lost; the program's exit code."""
        os.close(self._ours)
        self._ours = -1
        return self._process.wait(PATIENCE_S)

    def resize(self, *, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process.send_signal(signal.SIGWINCH)  # It has this terminal, but not as its controlling one.

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str) -> str:
        """All that was shown since the last call, up to this text and a little further."""
        until = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            if time.monotonic() > until or not self._read():
                raise AssertionError(f"{text!r} was not shown, only {self.shown!r}")
        shown, self.shown = self.shown, ""
        return shown

    def read_now(self, wait_s: float) -> str:
        """What was written since the last read; '' if nothing comes in this time."""
        if not select.select([self._ours], [], [], wait_s)[0]:
            return ""
        with suppress(OSError):
            self._bytes += os.read(self._ours, 65536)
        text = self._bytes.decode(errors="ignore")  # The end of a character may still be on its way.
        self._bytes = self._bytes[len(text.encode()) :]
        return text

    @property
    def pid(self) -> int:
        return self._process.pid

    def modes(self) -> list[Any]:
        """As a shell that comes next would find them."""
        return termios.tcgetattr(self._ours)

    def finish(self) -> tuple[int, str]:
        """Exit code, and all that was shown."""
        while self._read():
            pass
        return self._process.wait(PATIENCE_S), self.shown.replace("\r\n", "\n")

    def _read(self) -> bool:
        """Whether more may come."""
        if not select.select([self._ours], [], [], PATIENCE_S)[0]:
            return False
        chunk = b""
        with suppress(OSError):  # The end of a terminal is an error on Linux.
            chunk = os.read(self._ours, 65536)
        self.shown += chunk.decode(errors="replace")
        return bool(chunk)


def resized_interrupted_and_left(shell: Terminal) -> int:
    """A shell hears of another size and of Ctrl-C, and its exit code comes through."""
    shell.resize(rows=33, columns=77)
    # Whoever says so has the terminal already: a Ctrl-C that comes before it does would end nothing.
    said = "sh -c \"echo re''sized; exec sleep 500\""
    shell.type(f"while [ \"$(stty size)\" != '33 77' ]; do sleep 0.1; done; {said}\n")
    shell.wait_for("resized\r\n")
    shell.type("\x03")
    shell.wait_for("$ ")
    shell.type("exit 5\n")
    return shell.finish()[0]


def in_terminal(*words: str, columns: int, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """`fathom` in a terminal: exit code, and what it showed."""
    with Terminal([*FATHOM, *words], columns=columns, env=env or {}) as terminal:
        return terminal.finish()


def in_pipe(*words: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [*FATHOM, *words], capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )
    return done.returncode, done.stdout + done.stderr
