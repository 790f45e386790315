"""Pages as man pages, in roff with the macros of man(7). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from fathom.cli.pages.page import (
    PROGRAM,
    CommandPage,
    Option,
    argument_usage,
    first_sentence,
    option_text,
    option_usage,
)

EXIT_CODES = (
    ("0", "The answer is good, or what was asked for is done."),
    ("1", "The answer is no: something is not as wanted, does not exist, or was refused."),
    ("2", "Wrong use, or an error of the environment, such as an API server that does not answer."),
    ("130", "Ended by Ctrl-C."),
)
FILES = (
    (".fathom/kubeconfig", "Names the API server of a cluster that was started in this directory."),
    ("~/.kube/config", "As kubectl; used if there is neither KUBECONFIG nor the file above."),
)


def manual(page: CommandPage, version: str) -> str:
    """The man page of one command."""
    title = "-".join((PROGRAM, *page.words))
    lines = [
        *_head(title, version, first_sentence(page.paragraphs[0]).removesuffix(".")),
        *_synopsis(page.usage),
        ".SH DESCRIPTION",
        *_paragraphs(page.paragraphs),
        *_definitions("ARGUMENTS", ((argument_usage(each), option_text(each)) for each in page.arguments)),
        *_definitions("COMMANDS", ((each.name, f"{each.about}.") for each in page.commands)),
    ]
    for group in page.groups:
        lines += _definitions(group.title.upper(), map(_row, group.options))
    lines += [".SH EXAMPLES", *_examples([(each.command, each.about) for each in page.examples])]
    lines += _definitions("EXIT STATUS", EXIT_CODES)
    above = "-".join((PROGRAM, *page.words[:-1]))
    others = [f"{title}-{each.name}" for each in page.commands]
    return _text([*lines, *_see_also([above, *others])])


def front_manual(groups: Mapping[str, Sequence[tuple[str, str]]], about: str, version: str) -> str:
    """fathom(1): every command, with a line."""
    lines = [*_head(PROGRAM, version, about.removesuffix(".")), *_synopsis(f"{PROGRAM} COMMAND")]
    lines += [".SH DESCRIPTION", *_paragraphs((about,))]
    for title, commands in groups.items():
        lines += _definitions(title.upper(), ((name, f"{summary}.") for name, summary in commands))
    lines += [*_definitions("FILES", FILES), *_definitions("EXIT STATUS", EXIT_CODES)]
    names = [f"{PROGRAM}-{name}" for commands in groups.values() for name, _ in commands]
    return _text([*lines, *_see_also([*names, "kubectl"])])


def _head(title: str, version: str, about: str) -> list[str]:
    return [
        f'.TH {roff(title.upper())} 1 "" "{roff(version)}" "User Commands"',
        ".nh",  # A hyphen that is not there would be copied with a name.
        ".ad l",
        ".SH NAME",
        f"{roff(title)} \\- {roff(about)}",
    ]


def _synopsis(usage: str) -> list[str]:
    return [".SH SYNOPSIS", f".B {roff(usage)}"]


def _row(option: Option) -> tuple[str, str]:
    return option_usage(option), option_text(option)


def _paragraphs(paragraphs: Iterable[str]) -> list[str]:
    return [line for paragraph in paragraphs for line in (".PP", roff(paragraph))][1:]


def _definitions(title: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    lines = [line for name, about in rows for line in (".TP", f".B {roff(name)}", roff(about))]
    return [f".SH {roff(title)}", *lines] if lines else []


def _examples(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Commands are never filled nor broken: they are there to be copied."""
    lines = []
    for command, about in rows:
        lines += [".PP", ".nf", f".B {roff(command)}", ".fi"]
        lines += [".RS", roff(about), ".RE"] if about else []
    return lines[1:]


def _see_also(names: Iterable[str]) -> list[str]:
    return [".SH SEE ALSO", ", ".join(f"\\fB{roff(name)}\\fR(1)" for name in names)]


def roff(text: str) -> str:
    """The text with roff's own characters escaped; hyphens stay hyphens, for copying."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("`", "\\(ga")
    escaped = escaped.replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    escaped = re.sub(r"[^\x00-\x7f]", lambda match: f"\\[u{ord(match.group()):04X}]", escaped)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
