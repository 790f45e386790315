"""The program under test: how it is killed, stopped, paused and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fathom.chaos.program import Program, ProgramNotStarted

pytestmark = pytest.mark.live

ENDLESS = "trap 'echo asked to stop; exit 0' TERM; echo started $$; while :; do sleep 0.05; done"


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def run(directory: Path, script: str, story: Callable[[Program, list[str]], Awaitable[None]]) -> str:
    """What the program has written in the end."""
    told: list[str] = []

    async def whole() -> None:
        program = Program(("sh", "-c", script), {"NAME": "x"}, directory / "out.log", told.append)
        await program.begin()
        try:
            await story(program, told)
        finally:
            await program.end()

    asyncio.run(whole())
    return (directory / "out.log").read_text()


def lines_with(directory: Path, word: str) -> int:
    return (directory / "out.log").read_text().count(word)


def test_a_program_that_is_killed_starts_again_as_another_process(tmp_path: Path) -> None:
    async def story(program: Program, told: list[str]) -> None:
        await until(lambda: lines_with(tmp_path, "started") == 1)
        await program.kill(0.0)
        await until(lambda: lines_with(tmp_path, "started") == 2)
        assert (told, program.starts, program.ends) == (["starts"], 2, [])

    words = run(tmp_path, ENDLESS, story).split()
    assert words[0] == words[6] == "started"
    assert words[1] != words[7]


def test_what_the_program_started_itself_is_killed_with_it(tmp_path: Path) -> None:
    child = f"sh -c 'while :; do echo tick >> {tmp_path}/ticks; sleep 0.02; done' & echo started; wait"

    async def story(program: Program, told: list[str]) -> None:
        await until((tmp_path / "ticks").exists)

    run(tmp_path, child, story)
    size = (tmp_path / "ticks").stat().st_size
    run(tmp_path, "echo later; sleep 60", lambda *_: until(lambda: lines_with(tmp_path, "later") == 1))
    assert (tmp_path / "ticks").stat().st_size == size


def test_a_program_that_is_asked_to_stop_can_say_goodbye(tmp_path: Path) -> None:
    async def story(program: Program, told: list[str]) -> None:
        await until(lambda: lines_with(tmp_path, "started") == 1)
        await program.ask_to_stop(10.0)
        await until(lambda: lines_with(tmp_path, "started") == 2)

    assert "asked to stop\n--- start 2 ---\n" in run(tmp_path, ENDLESS, story)


def test_a_program_that_ends_by_itself_is_started_again(tmp_path: Path) -> None:
    async def story(program: Program, told: list[str]) -> None:
        await until(lambda: program.starts == 2)
        assert told[:1] == ["ends by itself, with code 3"]
        assert program.last_lines()[0] == "x cannot go on"

    run(tmp_path, "echo $NAME cannot go on; exit 3", story)


def test_the_end_of_the_faults_brings_a_killed_program_back_at_once(tmp_path: Path) -> None:
    async def story(program: Program, told: list[str]) -> None:
        await until(lambda: lines_with(tmp_path, "started") == 1)
        killing = asyncio.create_task(program.kill(600.0))
        await until(lambda: program._process is not None and program._process.returncode is not None)
        killing.cancel()
        await until(lambda: lines_with(tmp_path, "started") == 2)

    run(tmp_path, ENDLESS, story)


def test_a_file_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        await Program((str(tmp_path),), {}, tmp_path / "out.log", lambda _: None).begin()

    with pytest.raises(ProgramNotStarted, match=r"cannot run .*: Permission denied; name an executable file"):
        asyncio.run(story())
