"""docs/demo.md is a recording of the demonstration as it is now; README.md's pictures are drawn from it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from fathom.demo.risk_api import STORY
from fathom.demo.steps import trouble

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
TYPED = re.compile(r"^(\$ .*?)   \(\d+ s\)$", flags=re.M)  # The page says when, the pictures do not.


@pytest.fixture(scope="module")
def recorded() -> str:
    page = (ROOT / "docs" / "demo.md").read_text()
    return TYPED.sub(r"\1", page.partition("```text\n")[2].partition("\n```")[0])


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PICTURES)
        return importlib.import_module("draw")


def test_every_step_of_the_story_is_in_the_recording_and_went_well(recorded: str) -> None:
    """Else run `script/pictures`."""
    parts = re.split(r"^\$ (fathom .*)\n", recorded, flags=re.M)
    steps = [step for act in STORY for step in act.steps]
    assert parts[1::2] == [step.command for step in steps]
    assert [
        (step.command, wrong)
        for step, output in zip(steps, parts[2::2], strict=True)
        if (wrong := trouble(step, step.exit_code, output))
    ] == []
    told = [f"# {step.text}" for step in steps]
    assert [text for text in told if text not in recorded.splitlines()] == []


def test_the_pictures_of_the_readme_are_commands_of_the_recording_with_their_output(
    recorded: str, draw: ModuleType
) -> None:
    shown = re.findall(r"\]\(docs/pictures/([\w-]+)\.svg\)", (ROOT / "README.md").read_text())
    assert shown == ["why", "coupling", "timeline", "replay", "what-if", "preview"]
    for name in shown:
        lines = draw.lines_of(recorded, name)
        assert lines[0].startswith("$ fathom "), name
        assert (PICTURES / f"{name}.svg").read_text() == draw.drawn(lines), name
