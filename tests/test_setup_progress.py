"""What script/setup shows while pip works, with a pip that waits to be let go."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminals import Terminal

ROOT = Path(__file__).parents[1]
PYTHON = f"""#!/bin/sh
case "$*" in
    *'pip install'*-r*)
        echo "Collecting one==1"
        echo "Requirement already satisfied: two==2"
        while [ ! -e go ]; do sleep 0.05; done ;;
    *-m*) ;;
    *) exec {sys.executable} "$@" ;;
esac
"""

pytestmark = pytest.mark.live


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for directory in ("script", "src", ".venv/bin", ".venv/lib"):
        (tmp_path / directory).mkdir(parents=True)
    shutil.copy(ROOT / "script/setup", tmp_path / "script/setup")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    (tmp_path / "requirements.lock").write_text("one==1\ntwo==2\nthree==3\n")
    python = tmp_path / ".venv/bin/python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def test_on_a_terminal_setup_counts_the_packages_and_clears_the_line(clone: Path) -> None:
    with Terminal([str(clone / "script/setup"), "--runtime"], columns=100, env={}) as terminal:
        shown = terminal.wait_for("2 of 3 packages found, ")
        assert shown.startswith("script/setup: installing 3 packages of requirements.lock into .venv")
        (clone / "go").touch()
        code, rest = terminal.finish()
    assert code == 0
    assert [_left(line) for line in rest.rstrip("\n").split("\n")] == [
        "script/setup: installing fathom from this clone",
        "script/setup: compiling",
    ]


def _left(line: str) -> str:
    """What a terminal shows of a line after its last clearing."""
    return line.rpartition("\033[K")[2]


def test_in_a_pipe_setup_prints_a_line_for_each_step(clone: Path) -> None:
    (clone / "go").touch()
    done = subprocess.run([clone / "script/setup", "--runtime"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "script/setup: installing 3 packages of requirements.lock into .venv, about a minute",
        "script/setup: installing fathom from this clone",
        "script/setup: compiling",
    ]
