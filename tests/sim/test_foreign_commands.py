"""Commands that a program starts: the test answers for them, or the program is told that nobody does."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sim.test_foreign_programs import run

from fathom.sim.foreign.commands import Command
from fathom.sim.foreign.operator_test import OperatorTest
from fathom.sim.world.scenario import Result
from fathom.sim.world.world import World


def told(main: Callable[[list[Any]], Any], **answers: Any) -> tuple[list[Any], Result]:
    found: list[Any] = []

    async def story(world: World) -> None:
        operator = OperatorTest(world, Path())
        for name, answer in answers.items():
            operator.command(name, answer)
        operator.run_program(lambda: main(found))
        await world.sleep(60)

    return found, run(story)


def helm(command: Command) -> Any:
    if command.args[0] == "install":
        return (
            f"installed {command.args[1]} with {command.input.decode()} for {command.env['USER_OF_HELM']}\n"
        )
    return (1, "", "no such release\n") if command.args[0] == "status" else 3


ENV = {"USER_OF_HELM": "me"}


def test_every_way_of_subprocess() -> None:
    def main(found: list[Any]) -> None:
        install = ["/usr/bin/helm", "install", "web"]
        ran = subprocess.run(install, input="values", text=True, capture_output=True, env=ENV, check=True)
        found.append((ran.returncode, ran.stdout, ran.stderr))
        found.append(subprocess.check_output("helm install db", shell=True, env=ENV))
        failed = subprocess.run(["helm", "status", "web"], stderr=subprocess.PIPE, check=False)
        found.append((failed.returncode, failed.stdout, failed.stderr))
        found.append(subprocess.call(["helm", "lint"], stdout=subprocess.DEVNULL))
        with subprocess.Popen(install, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENV) as process:
            assert process.stdin is not None
            process.stdin.write(b"more")
            found.append(process.communicate())
        try:
            subprocess.run(["helm", "status", "web"], check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            found.append(error.stderr)

    found, result = told(main, helm=helm)
    assert result.violation is None, result.violation
    assert found == [
        (0, "installed web with values for me\n", ""),
        b"installed db with  for me\n",
        (1, None, b"no such release\n"),
        3,
        (b"installed web with more for me\n", None),
        b"no such release\n",
    ]


def test_commands_of_an_event_loop() -> None:
    pipe = asyncio.subprocess.PIPE

    async def main(found: list[Any]) -> None:
        process = await asyncio.create_subprocess_exec(
            "helm", "install", "web", stdin=pipe, stdout=pipe, stderr=pipe, env=ENV
        )
        found.append((await process.communicate(b"values"), process.returncode))
        failing = await asyncio.create_subprocess_shell("helm status web", stderr=pipe)
        assert failing.stderr is not None
        found.append((await failing.stderr.read(), await failing.wait()))

    found, result = told(main, helm=helm)
    assert result.violation is None, result.violation
    assert found == [((b"installed web with values for me\n", b""), 0), (b"no such release\n", 1)]


def test_what_libraries_look_for_and_do_without_is_not_there() -> None:
    def main(found: list[Any]) -> None:
        try:
            subprocess.Popen(["git", "rev-parse", "HEAD"])
        except FileNotFoundError as error:
            found.append(error.filename)

    found, result = told(main)
    assert result.violation is None
    assert found == ["git"]


async def by_the_loop() -> None:
    await asyncio.create_subprocess_exec("openssl", "version")


def by_subprocess() -> None:
    subprocess.run("/usr/bin/openssl version", shell=True, check=False)


@pytest.mark.parametrize(
    ("main", "name"),
    [(by_the_loop, "asyncio.create_subprocess_exec"), (by_subprocess, "subprocess.Popen")],
)
def test_a_command_that_nobody_answers_for_is_refused_with_what_to_do(
    main: Callable[[], Any], name: str
) -> None:
    _, result = told(lambda _: main(), helm=helm)
    assert result.violation is not None
    assert result.violation.message.startswith(f"{name} was called:\n")
    assert "Let the test answer for it, operator.command('openssl', function)." in result.violation.message
