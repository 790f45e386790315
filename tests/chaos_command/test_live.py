"""`fathom chaos` with real processes: planted bugs are found, and correct operators are left alone."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fathom.chaos.schedule import schedule
from fathom.sim.world.faults import LoseReply

pytestmark = pytest.mark.live

OPERATORS = Path(__file__).parents[2] / "examples" / "operators"
MANIFESTS = ("--manifest", str(OPERATORS / "greeting-crd.yaml"), "--manifest", str(OPERATORS / "hello.yaml"))
PYTHON = (sys.executable, "-u")
QUICK = ("--window", "3s", "--quiet", "1500ms", "--patience", "6s")


def chaos(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fathom.cli", "chaos", *words]
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, env=environment, timeout=1700
    )


def losing_seed() -> int:
    """A seed whose schedule loses the reply of a create, after the Greeting was applied."""
    for seed in itertools.count():
        planned = schedule(seed, documents=1, only=["lose-reply"], window_s=3.0)
        applied_s = planned.steps[0].at_s
        for fault in planned.while_applying:
            if isinstance(fault, LoseReply) and fault.match == "POST " and fault.at_s < applied_s:
                return seed
    raise AssertionError


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def test_an_operator_that_creates_again_after_a_lost_reply_is_found_and_told(tmp_path: Path) -> None:
    seed = losing_seed()
    faults = ("--seed", str(seed), "--runs", "1", "--faults", "lose-reply", *QUICK, *MANIFESTS)
    program = (*PYTHON, str(OPERATORS / "plain_greeter_twice.py"))
    done = chaos(tmp_path, *faults, "--", *program)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{' '.join(program)}, seed {seed}: BROKEN at 00:")
    assert lines[1] == "  nothing is made twice for one intent"
    assert lines[2].startswith(
        "  Greeting hello has 3 configmaps of the name hello-…; without faults it has 2."
    )
    assert any("api-1 has carried it out, but the reply is lost" in line for line in lines)
    assert (
        f"replay:  fathom chaos --replay .fathom-failures/chaos-{seed}.json -- {' '.join(program)}" in lines
    )
    report = read(tmp_path / ".fathom-failures" / f"chaos-{seed}.json")
    assert [len(report["failure"]["violation"]["objects"]), report["verdict"]] == [3, "broken"]
    assert "trying again" in (tmp_path / ".fathom-failures" / f"chaos-{seed}.log").read_text()


@pytest.mark.parametrize(
    ("program", "code", "complaint"),
    [
        (("./none",), 2, "fathom: error: ./none is not a program: name an executable file after --\n"),
        (
            ("sh", "-c", "echo no settings; exit 3"),
            2,
            "  | no settings\nfathom: error: sh ended with code 3 before it sent a request\n",
        ),
    ],
)
def test_a_program_that_does_not_start_is_one_clear_line(
    tmp_path: Path, program: tuple[str, ...], code: int, complaint: str
) -> None:
    done = chaos(tmp_path, *MANIFESTS, "--", *program)
    assert (done.returncode, done.stderr, done.stdout) == (code, complaint, "")


@pytest.mark.full
@pytest.mark.parametrize(
    "program",
    [(*PYTHON, str(OPERATORS / "plain_greeter.py")), (str(OPERATORS / "greeter.sh"),)],
    ids=["python", "shell"],
)
def test_nothing_is_said_about_a_correct_operator(tmp_path: Path, program: tuple[str, ...]) -> None:
    if "greeter.sh" in program[0] and shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    done = chaos(tmp_path, "--for", "5m", *MANIFESTS, "--", *program)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("needs", "program"),
    [
        ("kubectl", (str(OPERATORS / "greeter.sh"), "--generated-names")),
        ("node", ("node", str(OPERATORS / "greeter.mjs"), "--generated-names")),
        ("sh", (*PYTHON, str(OPERATORS / "plain_greeter_twice.py"))),
    ],
    ids=["shell", "javascript", "python"],
)
def test_the_same_bug_is_found_within_five_minutes_in_any_language(
    tmp_path: Path, needs: str, program: tuple[str, ...]
) -> None:
    if shutil.which(needs) is None:
        pytest.skip(f"{needs} is not installed")
    done = chaos(tmp_path, "--for", "5m", "--report", "chaos.json", *MANIFESTS, "--", *program)
    assert done.returncode == 1, done.stdout + done.stderr
    report = read(tmp_path / "chaos.json")
    assert report["failure"]["violation"]["invariant"] == "nothing is made twice for one intent"
    assert sum(run["seconds"] for run in report["runs"]) < 300
