"""Bugs that were invented before any story was written for them: each applies to today's code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.sim.putting_back import in_a_child

from fathom.sim.search.patches import BadPatch, load
from fathom.sim.zoo import unseen

pytestmark = pytest.mark.live

FILES = sorted(Path(unseen.__file__).parent.glob("[a-z]*.py"))


def unloadable() -> list[str]:
    """Loads them all into one process: each checks that the code it changes is there."""
    return [reason for file in FILES if (reason := _reason(file))]


def _reason(file: Path) -> str:
    try:
        load(file)
    except BadPatch as error:
        return str(error)
    return ""


def test_every_bug_applies_to_todays_code() -> None:
    assert in_a_child("unseen/__init__", unloadable) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_every_bug_says_what_it_is_and_in_which_room(file: Path) -> None:
    tree = ast.parse(file.read_text())
    assert ast.get_docstring(tree)
    assert [node for node in tree.body if isinstance(node, ast.Assign) and _name(node) == "ROOM"]


def _name(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
