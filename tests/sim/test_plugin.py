"""The pytest plugin, as a person uses it: stories are tests, and a failure leaves a file and a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fathom.model.times  # noqa: F401  # Looked at as a loaded module.

pytestmark = pytest.mark.live

STORIES = """
import asyncio

import pytest

from fathom.sim.testing import Api, Committed, Finding, Inside, LoseReply, Menu, Resource, World, scenario
from fathom.sim.testing import Checker

CONFIG_MAPS = Resource("", "v1", "configmaps")


class OneTicket(Checker):
    name = "one ticket each"

    def settled(self, world):
        there = [one["metadata"]["name"] for one in world.list("configmaps", "default")]
        if len(there) != 1:
            yield f"there are {len(there)}"


def clerk(inside: Inside) -> None:
    async def draw() -> None:
        number = 0
        ticket = lambda: {"metadata": {"name": f"ticket-{number}"}}
        while not isinstance(await Api(inside.seam).create(CONFIG_MAPS, "default", ticket()), Committed):
            number += 1
            await asyncio.sleep(1)

    inside.domain.create_task(draw())


LOST = LoseReply(at_s=0, target="clerk", match="POST ")


async def opening_hours(world: World) -> None:
    world.process("clerk", clerk)
    await world.sleep(60)  # Longer than anybody waits for an answer.
    await world.heal_and_settle(quiet_s=5)
"""

SOUND = (
    STORIES
    + '''
@scenario(Menu(processes=("clerk",), most=0), checkers=lambda: (OneTicket(),))
async def a_quiet_day(world: World) -> None:
    """Nothing goes wrong."""
    await opening_hours(world)


async def test_a_quiet_morning(world: World, tmp_path) -> None:
    assert tmp_path.is_dir()
    await opening_hours(world)
    assert len(world.list("configmaps", "default")) == 1


class TestAfternoon:
    @pytest.mark.world(Menu(processes=("clerk",), most=0), servers=2)
    async def test_with_two_servers(self, world: World) -> None:
        assert sorted(world.engine.processes) == ["api-1", "api-2", "driver"]
'''
)

BROKEN = (
    STORIES
    + '''
@scenario(Menu(processes=("clerk",)), scripted=(LOST,), checkers=lambda: (OneTicket(),))
async def a_lost_answer(world: World) -> None:
    """The clerk does not hear it."""
    await opening_hours(world)


@pytest.mark.world(Menu(processes=("clerk",)), scripted=(LOST,))
async def test_a_lost_answer(world: World) -> None:
    await opening_hours(world)
    assert len(world.list("configmaps", "default")) == 1
'''
)


def pytest_in(folder: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    environment = {**os.environ, "COLUMNS": "300", "CI": "true"}  # Where pytest's summary is uncut.
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    return ran.returncode, ran.stdout + ran.stderr


def lines_with(text: str, start: str) -> list[str]:
    return [line[len(start) :].strip() for line in text.splitlines() if line.startswith(start)]


def test_pytest_leaves_the_code_under_test_as_it_is() -> None:
    """The tests themselves are rewritten, so that a failed assert shows its values."""
    loaders = {name: type(sys.modules[name].__loader__).__name__ for name in ("fathom.model.times", __name__)}
    assert loaders == {"fathom.model.times": "SourceFileLoader", __name__: "AssertionRewritingHook"}


def test_a_story_is_a_test_for_each_seed_and_so_is_a_test_with_a_world(tmp_path: Path) -> None:
    (tmp_path / "test_tickets.py").write_text(SOUND)
    code, said = pytest_in(tmp_path, "--fathom-seeds", "3..5", "-v")
    assert code == 0, said
    assert [line.partition(" ")[0] for line in said.splitlines() if "PASSED" in line] == [
        f"test_tickets.py::{name}[{seed}]"
        for name in ("a_quiet_day", "test_a_quiet_morning", "TestAfternoon::test_with_two_servers")
        for seed in (3, 4)
    ]
    assert "6 runs, " in said
    assert not (tmp_path / ".fathom-failures").exists()


def test_a_failure_leaves_a_file_and_says_the_command_that_shows_it_again(tmp_path: Path) -> None:
    (tmp_path / "test_tickets.py").write_text(BROKEN)
    code, said = pytest_in(tmp_path, "--fathom-seeds", "7")
    assert code == 1, said
    assert "one ticket each" in said
    assert "the reply is lost: the sender cannot know" in said
    assert "Traceback" not in said
    assert lines_with(said, "rerun: ") == [
        "fathom sim run test_tickets.py:a-lost-answer --seed 7",
        "pytest test_tickets.py::test_a_lost_answer --fathom-seeds 7",
    ]
    assert lines_with(said, "broken: ") == lines_with(said, "rerun: ")
    by_file, by_test = lines_with(said, "replay: ")
    kept = ".fathom-failures/test_tickets.py_a-lost-answer-7-random.json"
    assert by_file == f"fathom replay {kept} --trust scenario"

    for command in (*lines_with(said, "rerun: "), by_file, by_test):
        program, *words = command.split()
        ran = subprocess.run(
            [sys.executable, "-m", {"fathom": "fathom.cli"}.get(program, program), *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == (0 if command == by_file else 1), ran.stdout + ran.stderr
        assert "BROKEN" in ran.stdout
        assert ("reproduced, input for input" in ran.stdout) == ("replay" in command)


@pytest.mark.full
def test_a_failure_is_shrunk_when_asked(tmp_path: Path) -> None:
    more = "scripted=(LOST, LoseReply(at_s=3, target='clerk', match='POST /nothing'))"
    (tmp_path / "test_tickets.py").write_text(BROKEN.replace("scripted=(LOST,)", more))
    code, said = pytest_in(tmp_path, "--fathom-seeds", "7", "--fathom-shrink", "-k", "test_a_lost_answer")
    assert code == 1
    assert said.count("lose-reply clerk on") == 1
    assert lines_with(said, "rerun: ") == []  # Its faults are no longer those of the seed.
    assert len(lines_with(said, "replay: ")) == 1


def test_a_patch_is_in_force_before_the_tests_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "test_tickets.py").write_text(SOUND)
    (tmp_path / "two.py").write_text(
        "from fathom.client.api import Api\n"
        "sound = Api.create\n"
        "async def twice(self, resource, namespace, obj):\n"
        "    again = {**obj, 'metadata': {'name': obj['metadata']['name'] + '-again'}}\n"
        "    await sound(self, resource, namespace, again)\n"
        "    return await sound(self, resource, namespace, obj)\n"
        "Api.create = twice\n"
    )
    code, said = pytest_in(
        tmp_path, "--fathom-seeds", "1", "--fathom-patch", "two.py", "-k", "day or morning"
    )
    assert code == 1, said
    assert "2 failed" in said
    assert "there are 2" in said
    assert lines_with(said, "rerun: ") == [
        "fathom sim run test_tickets.py:a-quiet-day --seed 1 --patch two.py",
        "pytest test_tickets.py::test_a_quiet_morning --fathom-seeds 1 --fathom-patch two.py",
    ]


@pytest.mark.full
def test_lineage_searches_from_each_seed(tmp_path: Path) -> None:
    (tmp_path / "test_tickets.py").write_text(SOUND.replace("most=0", "most=3"))
    words = ("--fathom-seeds", "1", "--fathom-strategy", "lineage", "-k", "day")
    code, said = pytest_in(tmp_path, *words)
    assert code == 1, said
    assert "2 runs, " in said  # The good one, and the one without the reply that it rested on.


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--fathom-seeds", "x"), "--fathom-seeds x: expected A..B"),
        (("--fathom-patch", "nothing.py"), "nothing.py is not a Python file"),
    ],
)
def test_bad_options_are_said_in_a_line(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    (tmp_path / "test_tickets.py").write_text(SOUND)
    code, said = pytest_in(tmp_path, *words)
    assert code != 0
    assert why in said
    assert "INTERNALERROR" not in said


def test_a_test_that_is_no_story_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(world):\n    pass\n")
    code, said = pytest_in(tmp_path, "--fathom-seeds", "1")
    assert code == 1
    assert "must be an async def" in said


def test_a_fixture_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.fixture\ndef world():\n    return 5\n"
        "def test_it(world):\n    assert world == 5\n"
    )
    code, said = pytest_in(tmp_path)
    assert (code, "scenarios" in said) == (0, False)
