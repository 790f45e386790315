"""docs/testing-your-operator.md does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.sim.checkers.operators import for_any_operator

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing-your-operator.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    _, copy, _ = blocks("sh")[0].strip().splitlines()  # After the install, before the test.
    subprocess.run(["sh", "-ec", copy], cwd=ROOT, env={**os.environ, "HOME": str(home)}, check=True)
    return home / "my-operator"


def run(folder: Path, command: str) -> tuple[int, str]:
    program, *words = command.split()
    ran = subprocess.run(
        [sys.executable, "-m", program, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_the_test_on_the_page_is_the_example_and_has_ten_lines() -> None:
    (shown,) = blocks("python")
    assert shown == (ROOT / "examples" / "operators" / "test_greeter.py").read_text()
    assert len(shown.splitlines()) <= 10


def test_the_page_names_what_is_checked() -> None:
    named = set(re.findall(r"^\| ([^|]+?) \|", PAGE, flags=re.M))
    unnamed = {checker.name for checker in for_any_operator()} - named
    assert unnamed == {"an object keeps its identity"}  # Of the API server; an operator cannot break it.


def test_the_test_on_the_page_passes(folder: Path) -> None:
    code, said = run(folder, blocks("sh")[0].strip().splitlines()[-1])
    assert code == 0, said
    assert "10 passed" in said


def what(line: str) -> str:
    """Without times: how far the run was shrunk depends on the machine."""
    return re.sub(r"^ +\d+  \d\d:\d\d\.\d+| at \d\d:.*|  \(because.*|^ +…$", "", line).strip()


@pytest.mark.full
def test_the_failing_test_on_the_page_tells_the_story_and_its_command_repeats_it(folder: Path) -> None:
    code, said = run(folder, blocks("sh")[1].strip())
    assert code == 1, said
    (story,) = re.findall(r"^```\n(test_greeter_twice.py::.*?)^```$", PAGE, flags=re.M | re.S)
    assert [line for line in map(what, story.splitlines()) if line not in said] == []
    again = re.findall(r"^replay:  (pytest .*)$", said, flags=re.M)[-1]
    code, said = run(folder, again)
    assert code == 1, said
    assert "reproduced, input for input" in said
