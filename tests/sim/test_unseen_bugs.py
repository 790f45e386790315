"""Bugs that were invented before any story was written for them: each applies to today's code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.sim.putting_back import in_a_child

from fathom.sim.zoo import unseen

pytestmark = pytest.mark.live

FILES = sorted(Path(unseen.__file__).parent.glob("[a-z]*.py"))


def is_in_place() -> bool:
    return True


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_a_bug_says_what_it_is_and_where_and_applies_to_todays_code(file: Path) -> None:
    tree = ast.parse(file.read_text())
    rooms = [node.value for node in tree.body if isinstance(node, ast.Assign) and _name(node) == "ROOM"]
    assert ast.get_docstring(tree)
    assert len(rooms) == 1
    assert in_a_child(f"unseen/{file.stem}", is_in_place)


def _name(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
