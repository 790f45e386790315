"""Every `fathom …` on a page, in a block or within a sentence, names a command and flags that there are."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fathom.cli.main import command_words, make_app
from fathom.cli.pages.reading import page_of

ROOT = Path(__file__).parents[2]
HISTORY = ROOT / "CHANGELOG.md"  # It names what was.
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {HISTORY})
APP = make_app()
EVERYWHERE = {"--help", "--debug", "--config"}  # Taken away before a command reads its flags.
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", flags=re.M | re.S)
IN_A_LINE = re.compile(r"`(?:kubectl )?fathom ([^`]+)`")
INNER = re.compile(r"\$\(([^()]*)\)")
IN_A_SHELL = re.compile(
    r"(?:^\s*(?:\$ )?(?:\w+=\S+ )*|[|;&] *)(?:\S*/|kubectl )?fathom ((?:[^|;#\n]|\w\|\w)+)", flags=re.M
)
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*|(?<![\w-])-[a-zA-Z]\b")


def commands_of(text: str) -> Iterator[str]:
    for language, block in BLOCK.findall(text):
        typed = {"sh": block, "console": _typed(block)}.get(language, "").replace("\\\n", " ")
        for part in (INNER.sub("x", typed), "\n".join(INNER.findall(typed))):
            yield from IN_A_SHELL.findall(part)
    for words in IN_A_LINE.findall(BLOCK.sub("", text)):
        yield " ".join(words.replace(r"\|", "|").split())


@functools.cache
def flags_of(*command: str) -> frozenset[str]:
    """Of a command; none of one that has commands of its own."""
    page = page_of(APP, command)
    names = {name for option in page.options for name in option.names}
    return frozenset() if page.commands else frozenset(names | EVERYWHERE)


def _typed(block: str) -> str:
    """Without what is printed."""
    return "\n".join(line for line in block.splitlines() if line.startswith(("$ ", "> ")))


def unknown(command: str) -> str:
    """What of the command there is not; '' if all is there."""
    words = re.sub(r"'[^']*'|\"[^\"]*\"", "x", command.partition(" -- ")[0]).split()
    named = [word.partition("|")[0] for word in words]  # `store backup|verify`: the first of them.
    if not re.match(r"[a-z]", named[0]):
        return ""  # `fathom …`
    found = command_words(APP, [word for word in named if re.fullmatch(r"[a-z][\w-]*", word)] or named)
    if found is None:
        return command
    known = flags_of(*found)
    return ", ".join(flag for flag in FLAG.findall(" ".join(words)) if known and flag not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_commands_and_flags_that_there_are(page: Path) -> None:
    found = [(command, wrong) for command in commands_of(page.read_text()) if (wrong := unknown(command))]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_console_begins_with_what_is_typed(page: Path) -> None:
    """Blocks of commands alone are `sh`."""
    blocks = [block for language, block in BLOCK.findall(page.read_text()) if language == "console"]
    assert [block for block in blocks if not block.lstrip().startswith("$ ")] == []


def test_commands_are_found_in_blocks_and_in_sentences() -> None:
    text = """Ask `fathom why
pod/x`, or `fathom sim list|run`; not `fathom: error`.

```sh
A=1 .venv/bin/fathom up \\
  [--nodes 3] # and why
fathom why $(fathom get pods -o name) | head; fathom top
```

```console
$ fathom nope
fathom is not typed here
```
"""
    assert [command.strip() for command in commands_of(text)] == [
        "up    [--nodes 3]", "why x", "top", "get pods -o name", "nope", "why pod/x", "sim list|run",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("why pod/x -o json --at 10m", ""),
        ("nope pod/x", "nope pod/x"),
        ("store nope", "store nope"),
        ("store backup|verify", ""),
        ("why --nope -Z", "--nope, -Z"),
        ("exec web-1 -- ls --nope", ""),
        ("patch pod/x -p '--nope'", ""),
        ("serve …", ""),
    ],
)
def test_what_is_not_there_is_named(command: str, wrong: str) -> None:
    assert unknown(command) == wrong
