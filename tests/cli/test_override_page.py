"""docs/overrides.md has every change, as the code has it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from fathom.kinds.override_changes import CHANGES

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "overrides.md"


def script(*words: str) -> int:
    code: int = runpy.run_path(str(ROOT / "script" / "overrides"))["main"](list(words))
    return code


def test_the_tables_of_the_page_are_those_that_the_code_makes() -> None:
    """Else run `script/overrides`."""
    assert script("--check") == 0


@pytest.mark.parametrize("row", ["| `drain` | `--drain`", "| `drain` | infrastructure"])
def test_a_page_that_lacks_a_change_is_found_and_written_anew(tmp_path: Path, row: str) -> None:
    page = tmp_path / "page.md"
    kept = [line for line in PAGE.read_text().splitlines() if not line.startswith(row)]
    page.write_text("\n".join(kept) + "\n")
    assert script("--check", str(page)) == 1
    assert script(str(page)) == 0
    assert page.read_text() == PAGE.read_text()


def test_each_table_has_every_change_once() -> None:
    lines = PAGE.read_text().splitlines()
    first = [cells[1] for line in lines if len(cells := line.split("|")) == 7]
    second = [cells[1] for line in lines if len(cells := line.split("|")) == 8]
    for cells in (first, second):
        assert sorted(re.findall("`([^`]+)`", " ".join(cells))) == sorted(CHANGES)
