"""A person at a terminal, who types what a page says: see console.py."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

from tests.docs.console import Step, matches

END = "end-of-step"
PATIENCE_S = 120.0
INSTALL_S = 900.0  # pip fetches more than a hundred packages.
LOOKING_AGAIN_S = 40.0
POLL_S = 0.2
# A person looks again when a pod is not ready yet. What only reads may be asked again, and nothing else.
READS = re.compile(
    r"(kubectl|fathom) (get|why|status|timeline|coupling|decisions|logs|override (list|show)|record status)\b"
    r"|curl "
)


class Terminal:
    """One session of bash for a page, and one more for each command that keeps running."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory, self._environment = directory, environment
        self._left: list[subprocess.Popen[bytes]] = []
        self._out = directory.parent / "shell.out"

    def __enter__(self) -> Terminal:
        self._shell = self._start(["bash", "--norc"], self._out)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process in (self._shell, *reversed(self._left)):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT if process is not self._shell else signal.SIGKILL)
            process.wait(60)

    def _start(self, command: list[str], out: Path) -> subprocess.Popen[bytes]:
        with out.open("wb") as file:
            return subprocess.Popen(
                command,
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def type(self, step: Step) -> str:
        """What is wrong with what the command prints and how it ends; '' if nothing is."""
        if step.note == "keeps running":
            return self._leave_running(step)
        until_s = time.monotonic() + (LOOKING_AGAIN_S if READS.match(step.command) else 0)
        while True:
            printed, code = self._run(step.command, INSTALL_S if step.note == "install" else PATIENCE_S)
            if code == step.exit_code and matches(step.output, printed):
                return ""
            if time.monotonic() >= until_s:
                return _complaint(step, f"{printed}[exit code {code}]")
            time.sleep(POLL_S)

    def _run(self, command: str, patience_s: float) -> tuple[str, int]:
        begin = self._out.stat().st_size
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null; printf '\\n{END} %s\\n' $?\n".encode())
        self._shell.stdin.flush()
        until_s = time.monotonic() + patience_s
        while True:
            printed = self._out.read_bytes()[begin:].decode(errors="replace")
            if ended := re.search(rf"^{END} (\d+)\n", printed, flags=re.M):
                return printed[: ended.start()], int(ended[1])
            if time.monotonic() > until_s or self._shell.poll() is not None:
                raise AssertionError(f"`{command}` does not end; it printed:\n{printed}")
            time.sleep(POLL_S / 4)

    def _leave_running(self, step: Step) -> str:
        out = self._directory.parent / f"left-{len(self._left)}.out"
        process = self._start(["bash", "--norc", "-c", step.command], out)
        self._left.append(process)
        until_s = time.monotonic() + PATIENCE_S
        while not matches(step.output, out.read_text(), begins=True):
            if time.monotonic() > until_s or process.poll() is not None:
                return _complaint(step, out.read_text())
            time.sleep(POLL_S)
        return ""


def _complaint(step: Step, printed: str) -> str:
    wanted = "\n".join(step.output)
    said = f"--- the page says (exit code {step.exit_code})\n{wanted}\n--- printed\n{printed}"
    return f"line {step.line}: $ {step.command}\n{said}"
