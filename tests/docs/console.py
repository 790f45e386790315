"""Pages whose commands are run: what stands in a ```console block is typed, and what it prints is compared.

    $ command            is run by bash, in one session for the whole page, so that `export` and `cd` last
    > more of it         a line that continues the command, as bash shows it
    output               all other lines: what the command prints, both streams

`…` in an output stands for anything within a line, and alone on a line for any number of lines. Times, ids,
addresses and the width of columns differ from run to run, and are not compared. A command that ends with
another code than 0 says so: `$ fathom why   # exit code 1`. A comment before a block says what is special:

    <!-- test: keeps running -->   one command, in a terminal of its own until the page ends
    <!-- test: install -->         run only where the install is tested; elsewhere it is the one at hand
    <!-- test: deep -->            run only in deep runs: it takes long

A ```sh block is not typed, and the comment before it says why: `not run: REASON`, or `run by FILE`, a test.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ANY = "…"
FENCE = re.compile(
    r"^(?:<!-- test: (?P<note>[^\n]*) -->\n\n?)?```console\n(?P<body>.*?)^```$", flags=re.M | re.S
)
SHOWN = re.compile(r"^(?:<!-- test: (?P<note>[^\n]*) -->\n\n?)?```sh\n(?P<body>.*?)^```$", flags=re.M | re.S)
EXIT_CODE = re.compile(r"#.*\bexit code (\d+)\s*$")
CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+Z)?"), "DATE"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{1,12})+\b"), "ID"),
    (re.compile(r"127\.\d+\.\d+\.\d+(:\d+)?"), "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{32}\b|\b(?=[a-f]*\d)[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"\b\d[\d,]*(\.\d+)?(/(CPU )?s| ?(µs|[KMG]i?B))\b"), "FIGURE"),
    (re.compile(r"\b\d[\d,]*(\.\d+)?( ?(ms|s)|[mhd])\b|\b(\d+[dhms])+\b"), "DURATION"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b"), "-HASH"),
    (re.compile(r"\s+"), " "),
)


class Step(NamedTuple):
    command: str
    output: tuple[str, ...]
    exit_code: int
    line: int  # Of the page.
    note: str  # 'keeps running', 'install', 'deep', or nothing.


def steps(page: str) -> list[Step]:
    found = []
    for fence in FENCE.finditer(page):
        line = page.count("\n", 0, fence.start("body")) + 1
        found += _steps_of(fence["body"].splitlines(), line, fence["note"] or "")
    return found


class Shown(NamedTuple):
    """A block of commands that is read, and not typed."""

    line: int  # Of the page.
    note: str
    commands: str


def shown(page: str) -> list[Shown]:
    return [
        Shown(page.count("\n", 0, block.start("body")), block["note"] or "", block["body"])
        for block in SHOWN.finditer(page)
    ]


def _steps_of(lines: list[str], first: int, note: str) -> list[Step]:
    begins = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    if not begins or begins[0] != 0:
        raise ValueError(f"line {first}: a console block begins with a command")
    return [
        _step(lines[begin:end], first + begin, note)
        for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True)
    ]


def _step(lines: list[str], line: int, note: str) -> Step:
    typed = 1
    while typed < len(lines) and (lines[typed].startswith("> ") or lines[typed] == ">"):
        typed += 1
    command = "\n".join([lines[0][2:], *(more[2:] for more in lines[1:typed])])
    code = EXIT_CODE.search(command)
    output = tuple(text for text in lines[typed:] if text.strip())
    return Step(command, output, int(code[1]) if code else 0, line, note)


def compared(line: str) -> str:
    """The line without what differs from run to run."""
    for pattern, name in CHANGING:
        line = pattern.sub(name, line)
    return line.strip()


def matches(expected: tuple[str, ...], printed: str, *, begins: bool = False) -> bool:
    """Whether the command has printed what the page says; with `begins`, at least that."""
    lines = [text for line in printed.splitlines() if (text := compared(line))]
    pattern = "".join(map(_pattern, expected)) + (r"(?s:.*)" if begins else "")
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


def _pattern(expected: str) -> str:
    if expected.strip() == ANY:
        return r"(?:.*\n)*?"
    return r".*".join(map(re.escape, re.split(rf" ?{ANY} ?", compared(expected)))) + r"\n"
