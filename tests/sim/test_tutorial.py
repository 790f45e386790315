"""docs/testing-your-controller.md does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "testing-your-controller.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    _, copy, _ = blocks("sh")[0].strip().splitlines()  # After the install, before the tests.
    subprocess.run(["sh", "-ec", copy], cwd=DOCS.parent, env={**os.environ, "HOME": str(home)}, check=True)
    return home / "my-controller"


def run(folder: Path, command: str) -> tuple[int, str]:
    program, *words = command.split()
    module = {"fathom": "fathom.cli"}.get(program, program)
    ran = subprocess.run(
        [sys.executable, "-m", module, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_all_code_on_the_page_is_in_the_examples() -> None:
    written = "".join(file.read_text() for file in sorted((DOCS / "examples").glob("*.py")))
    found = blocks("python")
    assert len(found) == 6
    assert [block for block in found if block.strip() not in written] == []


def test_the_tests_on_the_page_pass(folder: Path) -> None:
    *_, command = blocks("sh")[0].strip().splitlines()
    code, said = run(folder, command)
    assert code == 0, said
    assert "20 passed" in said


@pytest.mark.full
def test_the_bug_on_the_page_is_found_and_explained(folder: Path) -> None:
    explore, shrink = (block.strip() for block in blocks("sh")[1:])
    code, said = run(folder, explore)
    assert code == 1, said
    assert "1 violations:" in said
    assert shrink.split()[-1] in said
    code, said = run(folder, shrink)
    assert code == 0, said
    assert re.search(r"late request, line \d+: greeter-\d POST /api/v1/namespaces/default/configmaps", said)
    assert "each proven necessary" in said


def test_the_options_on_the_page_are_those_of_the_plugin(folder: Path) -> None:
    _, said = run(folder, "pytest --help")
    assert sorted(set(re.findall(r"^\| `(--fathom-[a-z]+)", PAGE, flags=re.M))) == sorted(
        set(re.findall(r"^ +(--fathom-[a-z]+)", said, flags=re.M))
    )
