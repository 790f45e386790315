"""The pages that are made from the code are current, and name every command that prints JSON."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fathom.cli.main import make_app
from fathom.cli.pages.page import CommandPage
from fathom.cli.pages.reading import all_words, page_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def script(*words: str) -> int:
    main = runpy.run_path(str(ROOT / "script" / "reference"))["main"]
    code: int = main(list(words))
    return code


@pytest.fixture(scope="module")
def documents(request: pytest.FixtureRequest) -> tuple[Any, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "site")
        found: tuple[Any, ...] = importlib.import_module("json_outputs").DOCUMENTS
    return found


def test_the_pages_are_those_that_the_code_makes() -> None:
    """Else run `script/reference`."""
    assert script("--check") == 0


def test_a_page_that_lacks_a_field_is_found_and_written_anew(tmp_path: Path) -> None:
    names = ("kind-fields.md", "invariants.md", "json.md")
    for name in names:
        lines = (DOCS / name).read_text().splitlines()
        row = next(line for line in reversed(lines) if line.startswith("| "))
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines if line != row))
    assert script("--check", str(tmp_path)) == 1
    assert script(str(tmp_path)) == 0
    assert [(tmp_path / name).read_text() for name in names] == [(DOCS / name).read_text() for name in names]


def prints_json(page: CommandPage) -> bool:
    return any(
        "--json" in option.names or ("--output" in option.names and "json" in option.choices)
        for option in page.options
    )


def test_every_command_that_prints_json_is_on_the_page(documents: tuple[Any, ...]) -> None:
    listed = {command for document in documents for command in document.commands}
    app = make_app()
    pages = [page_of(app, words) for words in all_words(app)]
    assert listed == {" ".join(page.words) for page in pages if prints_json(page)}


def test_examples_have_only_fields_that_there_are(documents: tuple[Any, ...]) -> None:
    rows = runpy.run_path(str(DOCS / "site" / "reference.py"))["rows"]
    examples = [document for document in documents if document.example is not None]
    assert len(examples) > 5
    for document in examples:
        msgspec.convert(document.example, document.shapes[0])
        paths = {path for path, _, _ in rows(document.shapes[0])}
        assert unknown(document.example, paths) == [], document.title


def unknown(value: Any, paths: set[str], path: str = "") -> list[str]:
    """Paths of the example that the table does not have; below a value of any form, all are known."""
    if isinstance(value, list):
        return [each for item in value for each in unknown(item, paths, path)]
    if not isinstance(value, dict) or (path and not any(known.startswith(f"{path}.") for known in paths)):
        return []
    found: list[str] = []
    for name, item in value.items():
        here = f"{path}.{name}" if path else name
        row = next((one for one in (here, f"{here}[]", f"{here}.*") if one in paths), None)
        items = list(item.values()) if row == f"{here}.*" else item
        found += [here] if row is None else unknown(items, paths, row)
    return found


def test_every_field_of_a_kind_has_words() -> None:
    page = (DOCS / "kind-fields.md").read_text()
    assert re.findall(r"^\| `([^`]*)` \| [^|]* \| (?:Required\. )?\s*\|$", page, flags=re.M) == []
