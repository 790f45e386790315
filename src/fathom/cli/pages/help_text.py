"""A page as lines of help, wrapped at words. Pure. A line that begins a section is a heading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fathom.cli.pages.page import CommandPage, Option, argument_usage, option_text, option_usage
from fathom.terminal import wrapped

COLUMN_MAX = 28  # Names that are longer have a line of their own.
GAP = 2
DEBUG = "Add --debug, or set FATHOM_DEBUG=1, to see the traceback of an error."
WIDTH_MAX = 100  # Longer lines are hard to read.


def help_lines(page: CommandPage, width: int) -> list[str]:
    width = min(width, WIDTH_MAX)
    lines = list(wrapped(f"Usage: {page.usage}", width, indent=4))
    for paragraph in page.paragraphs:
        lines += ["", *wrapped(paragraph, width)]
    if page.arguments:
        lines += _section(
            "Arguments", ((argument_usage(each), option_text(each)) for each in page.arguments), width
        )
    if page.commands:
        lines += _section("Commands", ((each.name, each.about) for each in page.commands), width)
    for group in page.groups:
        lines += _section(group.title, map(_row, group.options), width)
    if page.examples:
        lines += ["", "Examples", *_examples(page, width)]
    more = f"{page.name} COMMAND --help says more. " if page.commands else ""
    return [*lines, "", *wrapped(more + DEBUG, width)]


def is_heading(lines: Sequence[str], at: int) -> bool:
    """Whether this line is the title of the indented ones below it."""
    below = lines[at + 1] if at + 1 < len(lines) else ""
    return bool(lines[at]) and lines[at - 1] == "" and lines[at][0] != " " and below.startswith(" ")


def _row(option: Option) -> tuple[str, str]:
    return option_usage(option), option_text(option)


def _section(title: str, rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    return ["", title, *columns(list(rows), width)]


def columns(rows: Sequence[tuple[str, str]], width: int, column: int = 0) -> Iterator[str]:
    """Names in a column, what is said about them beside it; below it where a name is long."""
    column = column or max((len(name) for name, _ in rows if len(name) <= COLUMN_MAX), default=0) + GAP
    for name, about in rows:
        texts = list(wrapped(about, max(width - GAP - column, 20)))
        if len(name) + GAP > column:
            yield f"{'':{GAP}}{name}"
        else:
            first = texts.pop(0) if texts else ""
            yield f"{'':{GAP}}{name:<{column}}{first}".rstrip()
        yield from (f"{'':{GAP + column}}{text}" for text in texts)


def _examples(page: CommandPage, width: int) -> Iterator[str]:
    """Commands are never broken: they are there to be copied."""
    column = max(len(example.command) for example in page.examples) + GAP
    for example in page.examples:
        line = f"{'':{GAP}}{example.command:<{column}}{example.about}".rstrip()
        if len(line) <= width:
            yield line
            continue
        yield f"{'':{GAP}}{example.command}"
        yield from (f"{'':{3 * GAP}}{text}" for text in wrapped(example.about, width - 3 * GAP))
