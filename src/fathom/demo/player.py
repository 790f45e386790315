"""Plays a story: starts a cluster of its own, shows each command, runs it, and checks what it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from fathom.demo.risk_api import ZONES
from fathom.demo.steps import Act, Step, trouble
from fathom.supervise import python

FILES = Path(__file__).parent / "files"
READY_S = 90.0
POLL_S = 0.5


class DemoFailed(Exception):
    """A step did not go as it should."""


class Stage(msgspec.Struct, frozen=True):
    """Where a demonstration happens."""

    data: Path  # Of its cluster; the files that commands name are in DATA/demo.

    @property
    def files(self) -> Path:
        return self.data / "demo"

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    @property
    def log(self) -> Path:
        return self.data / "demo" / "up.log"

    def environment(self) -> dict[str, str]:
        """In which `fathom` is this fathom."""
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        own = {"KUBECONFIG": str(self.kubeconfig), "PATH": programs, "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **own}


def start_cluster(stage: Stage, port: int) -> None:
    """A cluster that runs on after this process. Raises DemoFailed."""
    shutil.copytree(FILES, stage.files, dirs_exist_ok=True)
    options = ("--data", str(stage.data), "--port", str(port), "--zones", ZONES)
    with stage.log.open("wb") as log:
        cluster = subprocess.Popen(
            python("up", *options), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    until_s = time.monotonic() + READY_S
    while "\nready\n" not in stage.log.read_text():
        if cluster.poll() is not None or time.monotonic() > until_s:
            cluster.kill()
            last = stage.log.read_text().strip().rpartition("\n")[2]
            raise DemoFailed(f"the cluster did not become ready: {last} (see {stage.log})")
        time.sleep(POLL_S)


def play(
    acts: Sequence[Act],
    stage: Stage,
    say: Callable[[str], None],
    pause: Callable[[], None],
    *,
    show: Callable[[Step], None] = lambda step: None,
) -> None:
    """`show`: called with each step that a web page shows, before its command. Raises DemoFailed."""
    for number, act in enumerate(acts, 1):
        say("")
        say(f"== {number}. {act.title}")
        for step in act.steps:
            say("")
            say(f"# {step.text}")
            if step.page:
                show(step)
            say(f"$ {step.command}")
            pause()
            _run(step, stage, say)


def _run(step: Step, stage: Stage, say: Callable[[str], None]) -> None:
    until_s = time.monotonic() + step.tries_s
    exit_code, output = _output(step, stage, None if step.tries_s else say)
    while trouble(step, exit_code, output) and time.monotonic() < until_s:
        time.sleep(POLL_S)
        exit_code, output = _output(step, stage, None)
    for line in output.splitlines() if step.tries_s else ():
        say(line)
    if problem := trouble(step, exit_code, output):
        raise DemoFailed(f"`{step.command}` did not go as it should: {problem}")


def _output(step: Step, stage: Stage, say: Callable[[str], None] | None) -> tuple[int, str]:
    """Exit code, and what it printed: line by line as it comes, if there is somebody to tell."""
    with subprocess.Popen(
        ["sh", "-c", step.command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=stage.files,
        env=stage.environment(),
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if say is not None:
                say(line.rstrip("\n"))
    return process.returncode, "".join(lines)


def answered(address: str, count: int) -> int:
    """How many of so many requests to a Service are answered well."""
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415

    good = 0
    for _ in range(count):
        host, _, port = address.rpartition(":")
        connection = HTTPConnection(host, int(port), timeout=2)
        try:
            connection.request("GET", "/")
            good += connection.getresponse().status == 200
        except (OSError, HTTPException):
            continue
        finally:
            connection.close()
    return good
