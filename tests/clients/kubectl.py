"""kubectl as a person runs it, and its output as values."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

COMMAND_S_MAX = 60
WATCH_S_MAX = 20
NOBODY_ACTS = re.compile(r"Warning: \S+: kept, but .*\n")
# An override may name what is not there yet.
NAMES_NOTHING = re.compile(
    r"Warning: spec\.(target|scope|changes\.\w+): (namespace|no node|there is no) .*\n"
)

Row = dict[str, str]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Kubectl:
    """Commands are written as on a command line; arguments that a shell would have to quote come after."""

    binary: str
    kubeconfig: Path
    home: Path  # Discovery caches live here: never those of the person who runs the tests.
    namespace: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def within(self, namespace: str) -> Kubectl:
        return replace(self, namespace=namespace)

    def with_environment(self, **variables: str) -> Kubectl:
        return replace(self, environment={**self.environment, **variables})

    def run(self, command: str, *arguments: str, stdin: str | None = None, cwd: Path | None = None) -> Done:
        done = subprocess.run(
            self._command(command, arguments),
            input=stdin or "",
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S_MAX,
            env=self._environment(),
            cwd=cwd,
        )
        # From 1.34 on, kubectl says where it deleted something.
        said = re.sub(r"( deleted) from \S+ namespace", r"\1", done.stdout)
        return Done(done.returncode, said, done.stderr)

    def ok(self, command: str, *arguments: str, stdin: str | None = None, cwd: Path | None = None) -> str:
        """What a command that succeeds prints, without a warning but of what nobody acts on, or of what an
        override names."""
        done = self.run(command, *arguments, stdin=stdin, cwd=cwd)
        said = NAMES_NOTHING.sub("", NOBODY_ACTS.sub("", done.err))
        assert (done.code, said) == (0, ""), f"kubectl {command}: {done}"
        return done.out

    def fails(self, command: str, *arguments: str, stdin: str | None = None, code: int = 1) -> str:
        """What a command that is refused says, on stderr."""
        done = self.run(command, *arguments, stdin=stdin)
        assert done.code == code, f"kubectl {command}: {done}"
        return done.err.rstrip("\n")

    def json(self, command: str, *arguments: str) -> Any:
        return json.loads(self.ok(f"{command} -o json", *arguments))

    def rows(self, command: str, *arguments: str) -> list[Row]:
        return rows(self.ok(command, *arguments))

    def value(self, command: str, path: str) -> str:
        """One field, as `get … -o jsonpath` prints it."""
        return self.ok(command, "-o", f"jsonpath={{{path}}}")

    def create(self, *objs: Any) -> str:
        return self.ok("create -f -", stdin=manifest(*objs))

    def apply(self, *objs: Any) -> str:
        return self.ok("apply -f -", stdin=manifest(*objs))

    @contextmanager
    def started(self, command: str, *arguments: str) -> Iterator[Started]:
        """A command that goes on, ended with the block."""
        process = subprocess.Popen(
            self._command(command, arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment(),
        )
        try:
            yield Started(process)
        finally:
            process.kill()
            process.communicate()

    def _command(self, command: str, arguments: tuple[str, ...]) -> list[str]:
        where = ["--namespace", self.namespace] if self.namespace else []
        return [self.binary, *where, *shlex.split(command), *arguments]

    def _environment(self) -> dict[str, str]:
        mine = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home), "TMPDIR": str(self.home)}
        return {"PATH": os.environ["PATH"], **mine, **self.environment}


class Started:
    """A running command whose output is read as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._read = b""
        self._over = False  # Its output has ended.

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def so_far(self) -> str:
        """All output until now."""
        self._more(0.0)
        return self._read.decode()

    def until(self, text: str) -> str:
        """All output so far, once it has `text` in it."""
        return self._wait(lambda: text in self._read.decode(), f"no {text!r}")

    def matching(self, pattern: str) -> str:
        """The first line that matches, once there is one."""
        line = re.compile(f"^.*{pattern}.*$", re.MULTILINE)
        found = line.search(self._wait(lambda: bool(line.search(self._read.decode())), f"no {pattern!r}"))
        return found.group() if found else ""

    def lines(self, count: int) -> list[str]:
        """The first lines, once there are as many."""
        return self._wait(lambda: self._read.count(b"\n") >= count, f"not {count} lines").splitlines()

    def ended(self) -> Done:
        """How a command ended that was going to."""
        self._wait(lambda: self._over, "still running")
        return Done(self._process.wait(WATCH_S_MAX), self._read.decode(), "")

    def _wait(self, there: Callable[[], bool], complaint: str) -> str:
        deadline = time.monotonic() + WATCH_S_MAX
        while not there():
            left = deadline - time.monotonic()
            assert left > 0, f"{complaint} after {WATCH_S_MAX} s in {self._read.decode()!r}"
            assert not self._over, f"{complaint}: it ended with {self._read.decode()!r}"
            self._more(left)
        return self._read.decode()

    def _more(self, wait_s: float) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if not self._over and select.select([descriptor], [], [], wait_s)[0]:
            piece = os.read(descriptor, 65536)
            self._read += piece
            self._over = not piece


As = Callable[[str], Kubectl]  # kubectl as somebody of this name.


@cache
def minor_of(binary: str) -> int:
    command = [binary, "version", "--client", "-o", "json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=COMMAND_S_MAX).stdout
    return int(re.sub(r"\D", "", json.loads(shown)["clientVersion"]["minor"]))


def manifest(*objs: Any) -> str:
    return yaml.safe_dump_all(objs)


def rows(text: str) -> list[Row]:
    """A printed table, by the titles above its columns. Cells may be empty, so positions count."""
    lines = text.splitlines()
    titles = list(re.finditer(r"\S+(?: \S+)*", lines[0])) if lines else []
    ends = [*(title.start() for title in titles[1:]), None]
    columns = [(title.group(), title.start(), end) for title, end in zip(titles, ends, strict=True)]
    return [{title: line[start:end].strip() for title, start, end in columns} for line in lines[1:]]


def without_age(found: list[Row]) -> list[Row]:
    """Rows without what the clock decides. An age must be there and look like one."""
    for row in found:
        assert re.fullmatch(r"\d+[smh](\d+[sm])?", row["AGE"]), row
    return [{title: cell for title, cell in row.items() if title != "AGE"} for row in found]


def eventually(check: Callable[[], Any], *, seconds: float = 10) -> Any:
    """The first true answer of `check`; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := check()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)  # Each question is a process.
    return answer
