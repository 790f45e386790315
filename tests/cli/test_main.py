"""What a person sees of the command line: help, one line for what went wrong, exit codes, no traceback."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fathom import __version__
from fathom.cli.commands import COMMANDS
from fathom.cli.main import one_line, run
from fathom.cli.problem import Problem

FATHOM = [sys.executable, "-m", "fathom.cli"]
# What `fathom --help` must not load: servers, event loops, cryptography, drivers.
HEAVY = (
    "fathom.serve",
    "fathom.api",
    "fathom.store",
    "fathom.bench.",
    "fathom.schedule",
    "fathom.sim.",
    "numpy",
    "aiohttp",
    "uvloop",
    "cryptography",
    "yaml",
)


def test_help_names_every_command_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [
        word for word in ("up", "kubeconfig", "store", "bench", "version") if f"  {word} " not in shown
    ] == []


@pytest.mark.parametrize("arguments", [["--help"], ["up", "--help"], ["bench", "--help"], ["version"]])
def test_help_loads_nothing_that_it_does_not_need(arguments: list[str]) -> None:
    code = f"import sys; from fathom.cli.main import run; run({arguments!r}); sys.exit(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "fathom.cli.main" in done.stderr
    assert [name for name in done.stderr.split() if name.startswith(HEAVY)] == []


def test_every_command_of_the_help_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert run([command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert f"Usage: fathom {command}" in shown


def test_a_question_loads_no_other_command_and_no_event_loop() -> None:
    """It runs once for each question: what it loads is what a user waits for."""
    arguments = ["why", "pod/x", "--kubeconfig", "/nowhere"]
    code = f"import sys; from fathom.cli.main import run; run({arguments!r}); print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "cannot read /nowhere" in done.stderr
    loaded = done.stdout.split()
    assert "fathom.cli.ask.why" in loaded
    others = {where.partition(":")[0] for where in COMMANDS.values()} - {
        "fathom.cli.ask.why",
        "fathom.cli.cluster.kubeconfig",
        "fathom.cli.main",
    }
    assert others.intersection(loaded) == set()
    assert {"asyncio", "numpy", "aiohttp", "cryptography"}.intersection(loaded) == set()


def test_the_simulator_loads_no_http_library() -> None:
    """Tests start it hundreds of times, and aiohttp alone takes a fifth of a second."""
    code = "import sys, fathom.sim.testing; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith(("aiohttp", "uvloop"))] == []


@pytest.mark.parametrize("arguments", [["override", "list"], ["override", "show", "x"], ["repair", "list"]])
def test_commands_that_steer_load_no_event_loop_and_no_server(arguments: list[str]) -> None:
    words = [*arguments, "--kubeconfig", "/nowhere"]
    code = f"import sys; from fathom.cli.main import run; run({words!r}); print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "cannot read /nowhere" in done.stderr
    loaded = done.stdout.split()
    assert {"asyncio", "numpy", "aiohttp", "cryptography"}.intersection(loaded) == set()
    assert [name for name in loaded if name.startswith(("fathom.api", "fathom.store", "fathom.sim"))] == []


def test_version_names_fathom_and_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    name, number, python = capsys.readouterr().out.split(maxsplit=2)
    assert (name, number.count("."), python) == ("fathom", 2, f"(Python {sys.version.split()[0]})\n")


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_document_of_version_has_kubectls_fields(
    output: str, read: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["version", "-o", output]) == 0
    major, minor, _ = __version__.split(".")
    assert read(capsys.readouterr().out) == {
        "clientVersion": {
            "major": major,
            "minor": minor,
            "gitVersion": f"v{__version__}",
            "pythonVersion": sys.version.split()[0],
            "platform": f"linux/{platform.machine()}",
        }
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nope"], 'Unknown command "nope"'),
        (["whither", "pod/x"], 'Unknown command "whither"'),
        (["up", "--port", "many"], "--port"),
        (["up", "--port", "70000"], "--port"),
        (["up", "--nodes", "many"], "--nodes"),
        (["bench", "api", "--connections", "0"], "--connections"),
        (["bench", "watch", "--writes", "-1"], "--writes"),
        (["bench", "api", "--kubeconfig", "x", "--store", "y"], "leave out --kubeconfig"),
        (["bench", "api", "--pid", "1"], "--pid needs --kubeconfig"),
        (["bench", "api", "--kubeconfig", "gone"], "cannot read gone: No such file"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n"), shown.err[:15]) == ("", 1, "fathom: error: ")
    assert complaint in shown.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["store", "backup"],
            'Command "store backup" parameter FILE requires an argument. See `fathom store backup',
        ),
        (["why", "--namespac"], "Unknown option: --namespac. Did you mean --namespace? See `fathom why"),
        (
            ["store", "bakup"],
            'backup"? Available commands: backup, restore, verify, migrate. See `fathom store',
        ),
    ],
)
def test_wrong_use_says_where_to_read_on(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err.endswith(f"{told} --help`.\n")


def test_commands_of_commands_are_listed_if_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert (run(["store"]), run(["store", "--help"])) == (0, 0)
    shown = capsys.readouterr().out
    assert shown == 2 * shown[: len(shown) // 2]
    assert shown.startswith("Usage: fathom store COMMAND\n")


def test_a_kubeconfig_is_shown_or_pointed_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("kind: Config\n")
    assert run(["kubeconfig", "--data", str(tmp_path)]) == 0
    assert run(["kubeconfig", "--data", str(tmp_path), "--path"]) == 0
    assert capsys.readouterr().out == f"kind: Config\n{file}\n"


def test_no_kubeconfig_says_how_to_get_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["kubeconfig", "--data", str(tmp_path)]) == 2
    assert f"`fathom up --data {tmp_path}`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Problem("as it is"), "as it is"),
        (FileNotFoundError(2, "No such file or directory", "x"), "No such file or directory: x"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (RuntimeError("two\nlines"), "RuntimeError: two lines (set FATHOM_DEBUG=1 to see the traceback)"),
        (KeyError(), "KeyError: no message (set FATHOM_DEBUG=1 to see the traceback)"),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [Problem("deep")])]), "deep"),
    ],
)
def test_every_error_becomes_one_line(error: Exception, told: str) -> None:
    assert one_line(error) == told


@pytest.mark.parametrize(
    ("arguments", "environment"), [(["--debug"], {}), ([], {"FATHOM_DEBUG": "1"})], ids=["option", "variable"]
)
def test_a_traceback_is_for_those_who_ask(arguments: list[str], environment: dict[str, str]) -> None:
    command = [*FATHOM, "kubeconfig", "--data", "gone"]
    plain = subprocess.run(command, capture_output=True, text=True, check=False)
    asked = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert "Traceback" not in plain.stderr
    assert "Traceback" in asked.stderr
    assert (plain.returncode, asked.returncode) == (2, 2)
    assert asked.stderr.endswith(plain.stderr)


def test_a_reader_that_goes_away_is_not_an_error() -> None:
    shell = f"{sys.executable} -m fathom.cli --help | true"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.kubectl
def test_kubectl_finds_fathom_as_its_plugin(kubectl: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [kubectl, "fathom", "version"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert done.stdout.startswith("fathom ")


def test_ctrl_c_is_silent(tmp_path: Path) -> None:
    fifo = tmp_path / "kubeconfig"
    os.mkfifo(fifo)
    command = [*FATHOM, "bench", "api", "--kubeconfig", str(fifo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        writer = os.open(fifo, os.O_WRONLY)  # Returns once the command has opened the other end.
        process.send_signal(signal.SIGINT)
        shown = process.communicate()
        os.close(writer)
    assert (shown, process.returncode) == (("", ""), 130)


def test_ctrl_c_is_silent_while_commands_are_loaded() -> None:
    code = (
        "import os, signal, sys; from fathom.cli.entry import main\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        name == 'cyclopts' and os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Pressed()); sys.argv = ['fathom', 'version']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 130)
