"""Troubles of a live cluster: what makes one, what else is wrong, what the first line says, and the change,
which is made as it is written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Obj, until

from fathom.cli.main import run

READY_S = "ready_s"  # Recorded by each test: how long after the change the subject was as wanted.
NOTHING: Mapping[str, str] = {}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, and the change that it proposes."""

    says: tuple[str, ...]  # All in the first line.
    never: tuple[str, ...] = ()  # Not in the first line: the decoy.
    fill: Mapping[str, str] = NOTHING  # Words in capitals of the command -> what is typed instead.
    act: Callable[[], object] | None = None  # What people do where no command does it; after the command.
    background: bool = False  # The command goes on, as a server does.
    waits: bool = False  # The answer proposes no command: time or an operator's work ends it.


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """`steps`: where something else is wrong that comes later, one answer after the other."""

    steps: tuple[Step, ...]
    subject: str = "pod/web"
    wanted: str | None = None  # As wanted after the last change. None: the subject. '': nothing is.


class Commands(Protocol):
    """Where commands are typed."""

    @property
    def kubectl(self) -> Kubectl: ...
    @property
    def background(self) -> list[subprocess.Popen[bytes]]: ...


Ask = Callable[..., tuple[int, str]]


def table(troubles: Iterable[str], *, deep: Iterable[str]) -> list[Any]:
    """Names as parameters of a test; those that are much like another one only in deep runs."""
    only_deep = frozenset(deep)
    return [pytest.param(name, marks=[pytest.mark.full] if name in only_deep else []) for name in troubles]


def asking(kubeconfig: Path, namespace: str, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs `fathom` as a user does: its exit code, and what it prints."""

    def ask(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run([*words, "-n", namespace, "--kubeconfig", str(kubeconfig)])
        return code, capsys.readouterr().out

    return ask


def document(ask: Ask, subject: str) -> Obj:
    code, text = ask("why", subject, "-o", "json")
    answer: Obj = json.loads(text)
    assert code == (0 if answer["asWanted"] else 1), answer["summary"]
    return answer


def solve(trouble: Trouble, ask: Ask, where: Commands, logs: Callable[[], str]) -> float:
    """Asks, types what the answer proposes, and waits until all is well. The seconds that took, from a change
    to what follows from it."""
    took_s, began_s = [0.0], 0.0
    for step in trouble.steps:
        answer = answer_with(trouble.subject, step, ask, logs)
        took_s.append(time.monotonic() - began_s if began_s else 0.0)
        check_text(ask("why", trouble.subject)[1], answer)
        change = answer["change"] or {}
        assert step.waits or change.get("command"), answer["summary"]
        began_s = time.monotonic()
        if not step.waits:
            type_command(filled(change["command"], step.fill), where, background=step.background)
        if step.act is not None:
            step.act()
    wanted = trouble.subject if trouble.wanted is None else trouble.wanted
    if wanted:
        until(lambda: is_well(document(ask, wanted)), lambda: f"{ask('why', wanted)[1]}\n{logs()}")
        took_s.append(time.monotonic() - began_s)
    return max(took_s)


def is_well(answer: Obj) -> bool:
    """A pod that has crashed is watched for a while before it counts as well: ready is enough here."""
    return bool(answer["asWanted"]) or str(answer["verdict"]).startswith("is ready for the moment")


def answer_with(subject: str, step: Step, ask: Ask, logs: Callable[[], str]) -> Obj:
    """The answer, once its first line has all the words."""
    answers: list[Obj] = []

    def is_told() -> bool:
        answers.append(document(ask, subject))
        return all(words in answers[-1]["summary"] for words in step.says)

    until(is_told, lambda: f"{step.says}\n{[each['summary'] for each in answers[-1:]]}\n{logs()}")
    for words in step.never:
        assert words not in answers[-1]["summary"]
    assert not answers[-1]["asWanted"]
    return answers[-1]


def check_text(text: str, answer: Obj) -> None:
    """The text has the first line, and says nothing twice. What it says may have changed since."""
    lines = text.splitlines()
    kind, name = str(answer["summary"]).split()[:2]
    assert lines[0].startswith(f"{kind} {name} "), (lines[0], answer["summary"])
    assert len(set(lines)) == len(lines), text
    command = (answer["change"] or {}).get("command")
    assert not command or text.count(command) <= 1, text


def filled(command: str, words: Mapping[str, str]) -> str:
    for placeholder, value in words.items():
        assert placeholder in command, (placeholder, command)
        command = command.replace(placeholder, value)
    return command


def type_command(command: str, where: Commands, *, background: bool = False) -> None:
    """As a person types it into a shell."""
    kubectl = where.kubectl
    programs = [os.path.dirname(kubectl.binary), os.path.dirname(shutil.which("fathom") or sys.executable)]
    environment = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig), "HOME": str(kubectl.home)}
    environment["PATH"] = os.pathsep.join([*programs, os.path.dirname(sys.executable), os.environ["PATH"]])
    if background:
        where.background.append(start_in_background(command, environment, kubectl.home))
        return
    done = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"


def start_in_background(
    command: str, environment: dict[str, str], directory: Path
) -> subprocess.Popen[bytes]:
    with (directory / "background.log").open("ab") as log:
        return subprocess.Popen(
            ["sh", "-c", f"exec {command}"], env=environment, cwd=directory, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
