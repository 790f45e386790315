"""What a person sees at 60, 80 and 140 columns, in a pipe, and with NO_COLOR: in a real terminal.

One process runs all commands, as starting one for each would take most of the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.api.harness import Api
from tests.cli.asking import PODS, Fathom, node, pod, told
from tests.cli.terminals import Terminal

from fathom.model.body import Body
from fathom.store.open import open_store
from fathom.store.protocol import Committed, Put

pytestmark = pytest.mark.live

COMMANDS = [
    "--help", "why --help", "override create --help", "store --help", "get --help", "sim explore --help",
    "why", "why pod/web-large", "why pod/web-large -o wide", "why pod/web-large -o yaml", "get nodes",
    "get nodes -o wide", "get pods -o yaml", "describe pod/web-large", "coupling", "coupling scheduler",
    "runbook list", "runbook show drain-zone", "timeline pod/web-large", "status pod/web-large", "sim list",
    "record status", "nope", "why pod/web-large -o nope",
]  # fmt: skip
# Documents stay as they are, for copying and for programs.
DOCUMENTS = {command for command in COMMANDS if command.endswith("yaml")}
EACH = """
import json, os, sys
from fathom.cli.main import run
for command in json.loads(os.environ["COMMANDS"]):
    sys.stdout.write(f"<{command}>\\n")
    sys.stdout.flush()
    run(command.split())
    sys.stderr.flush()
"""
BOXES = re.compile("[\u2500-\u257f]")
STYLE = re.compile("\x1b\\[[0-9;]*m")
SHAPES = ["60", "80", "140", "pipe", "no colour"]


def shown_in(shape: str, env: dict[str, str]) -> str:
    command = [sys.executable, "-c", EACH]
    env = {**env, "COMMANDS": json.dumps(COMMANDS)}
    if shape == "pipe":
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, env=env
        )
        return done.stdout
    extra = {"NO_COLOR": "1"} if shape == "no colour" else {}
    columns = int(shape) if shape.isdecimal() else 80
    with Terminal(command, columns=columns, env={**env, **extra}) as terminal:
        return terminal.finish()[1]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What each command showed, in each shape of terminal."""
    found: dict[str, dict[str, str]] = {}
    directory = tmp_path_factory.mktemp("terminals")

    async def story(api: Api, _scheduler: object, _fathom: Fathom) -> None:
        for name in ("node-10", "node-2"):
            await api.post("/api/v1/nodes", node(name, "4"))
        await api.post(PODS, pod("web-large", "64"))
        env = {**os.environ, "KUBECONFIG": str(directory / "kubeconfig-of-commands"), "TERM": "xterm"}
        for name in ("COLUMNS", "NO_COLOR"):
            env.pop(name, None)
        for shape in SHAPES:
            found[shape] = _parted(await asyncio.to_thread(shown_in, shape, env))

    told(story, directory)
    return found


def _parted(text: str) -> dict[str, str]:
    parts = re.split(r"^<([^>\n]+)>\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("shape", ["60", "80", "140", "no colour"])
def test_on_a_terminal_lines_end_at_words_within_its_width(
    shape: str, shapes: dict[str, dict[str, str]]
) -> None:
    width = int(shape) if shape.isdecimal() else 80
    assert list(shapes[shape]) == COMMANDS
    long = [
        (command, line)
        for command, text in shapes[shape].items()
        for line in STYLE.sub("", text).splitlines()
        if len(line) > width and not _may_be_long(line) and command not in DOCUMENTS
    ]
    assert long == []


def _may_be_long(line: str) -> bool:
    """A single word; a command that is there to be copied."""
    return len(line.split()) == 1 or line.strip().startswith(("$ ", "fathom "))


def test_in_a_pipe_nothing_is_wrapped_and_there_are_no_styles(shapes: dict[str, dict[str, str]]) -> None:
    whole = "".join(shapes["pipe"].values())
    assert ("\x1b" in whole, BOXES.findall(whole)) == (False, [])
    first = shapes["pipe"]["why pod/web-large"].splitlines()[0]
    assert first == (
        "pod default/web-large is not scheduled: no scheduler named 'default-scheduler' has a lease in"
        " fathom-system or a decision on record. Change: start a scheduler named default-scheduler (a cluster"
        " operator)"
    )


def test_a_terminal_and_a_pipe_show_the_same_words(shapes: dict[str, dict[str, str]]) -> None:
    """Help is laid out for the width everywhere; ages and times move on."""
    for command in ("why pod/web-large", "coupling scheduler", "runbook show drain-zone", "nope"):
        words = [re.sub(r"\d+", "N", STYLE.sub("", shapes[shape][command])).split() for shape in SHAPES]
        assert words.count(words[0]) == len(SHAPES)


def test_colour_is_for_terminals_without_no_color(shapes: dict[str, dict[str, str]]) -> None:
    assert shapes["80"]["nope"].startswith("\x1b[31mfathom: error: ")
    assert shapes["80"]["runbook list"].startswith("\x1b[1mNAMESPACE")
    assert "\x1b[1mOptions\x1b[0m" in shapes["80"]["why --help"]
    assert "\x1b" not in "".join(shapes["no colour"].values())
    assert BOXES.findall("".join(shapes["80"].values())) == []


def test_an_answer_at_60_columns(shapes: dict[str, dict[str, str]]) -> None:
    lines = STYLE.sub("", shapes["60"]["why pod/web-large"]).splitlines()[:4]
    assert lines == [
        "pod default/web-large is not scheduled: no scheduler named",
        "    'default-scheduler' has a lease in fathom-system or a",
        "    decision on record. Change: start a scheduler named",
        "    default-scheduler (a cluster operator)",
    ]


def test_documents_are_the_same_everywhere(shapes: dict[str, dict[str, str]]) -> None:
    documents = {shapes[shape]["get pods -o yaml"] for shape in SHAPES}
    assert len(documents) == 1


def test_numbers_in_names_are_in_order(shapes: dict[str, dict[str, str]]) -> None:
    names = [line.split()[0] for line in shapes["pipe"]["get nodes"].splitlines()]
    assert names == ["NAME", "node-2", "node-10"]


def test_a_progress_line_is_cleared_before_the_output(tmp_path: Path) -> None:
    code = (
        "from fathom.cli.status_line import live_line\nfrom fathom.terminal import say\n"
        "with live_line(quiet=False) as tell:\n    tell('half done ' * 20)\nsay('done')"
    )
    with Terminal([sys.executable, "-c", code], columns=40, env={}) as terminal:
        code_of, shown = terminal.finish()
    assert (code_of, shown) == (0, f"\r\x1b[K{('half done ' * 20)[:39]}\r\x1b[Kdone\n")


@pytest.mark.parametrize(
    ("words", "line", "last"),
    [
        (["bench", "record", "--inputs", "1000"], "measuring: 0 s", "recording, 1,000 inputs"),
        (["store", "verify", "data"], "verifying data: 0 s", "sound: "),
        (["store", "backup", "copy.db", "--data", "data"], "backing up data: 0 s", "backed up data to "),
    ],
)
def test_what_may_take_long_counts_the_seconds_and_clears_its_line(
    words: list[str], line: str, last: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    asyncio.run(_fill(tmp_path / "data"))
    code = (
        "import os, sys; from fathom.cli import main, status_line\n"
        "os.chdir(sys.argv[1]); status_line.TICK_S = 0.0001; sys.exit(main.run(sys.argv[2:]))"
    )
    with Terminal([sys.executable, "-c", code, str(tmp_path), *words], columns=80, env={}) as terminal:
        exit_code, shown = terminal.finish()
    assert exit_code == 0, shown
    *counted, printed = shown.split("\r\x1b[K")
    assert line in counted
    assert last in STYLE.sub("", printed)


async def _fill(data: Path) -> None:
    """With so much that reading it takes longer than the first tick."""
    store = await open_store(f"sqlite:{data}")
    many = tuple(Put(f"/k/{number}", Body({"kind": "ConfigMap", "n": number})) for number in range(20_000))
    assert isinstance(await store.commit((), many), Committed)
    await store.close()
