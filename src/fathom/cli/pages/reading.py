"""Reads pages from the commands: docstrings, parameters, commands of commands.

A docstring has paragraphs, then its examples: a paragraph of lines that begin with `fathom`. Two spaces or
more divide a command from a remark. A backslash at the end of a line continues the command in the next one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.cli.pages.page import (
    PROGRAM,
    CommandPage,
    CommandSummary,
    Example,
    Option,
    OptionGroup,
    first_sentence,
)

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument

OPTIONS = "Options"  # What cyclopts calls Parameters.
VALUE_NAMES = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "Path": "PATH"}
NOT_TOLD: tuple[Any, ...] = (None, False, True, "", (), 0)


def page_of(app: App, words: Sequence[str]) -> CommandPage:
    """The page of a command, or of commands. Only what it names is imported. Raises KeyError."""
    for word in words:
        app = app[word]
    paragraphs, examples = _told(app)
    arguments, groups = _options(app) if app.default_command else ((), ())
    return CommandPage(
        words=tuple(words),
        paragraphs=paragraphs,
        examples=examples,
        arguments=arguments,
        groups=groups,
        commands=tuple(CommandSummary(name, _summary(app, name)) for name in command_names(app)),
    )


def command_names(app: App) -> list[str]:
    """In the order in which the help lists them, without those that only programs use."""
    return [name for name in app if not name.startswith("-") and app[name].show]


def all_words(app: App, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, each before its own commands."""
    for name in command_names(app):
        yield (*words, name)
        yield from all_words(app[name], (*words, name))


def _summary(app: App, name: str) -> str:
    paragraphs, _ = _told(app[name])
    return first_sentence(paragraphs[0]).removesuffix(".") if paragraphs else ""


def _told(app: App) -> tuple[tuple[str, ...], tuple[Example, ...]]:
    return parts_of((inspect.getdoc(app.default_command) if app.default_command else app.help) or "")


def parts_of(text: str) -> tuple[tuple[str, ...], tuple[Example, ...]]:
    """Paragraphs, each in one line, and examples."""
    paragraphs, examples = [], []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith(f"{PROGRAM} "):
            examples += [_example(line) for line in re.sub(r"\\\n\s*", "", block).splitlines()]
        elif block:
            paragraphs.append(" ".join(block.split()))
    return tuple(paragraphs), tuple(examples)


def _example(line: str) -> Example:
    command, *about = re.split(r"\s{2,}", line.strip(), maxsplit=1)
    return Example(command, *about)


# Options.


def _options(app: App) -> tuple[tuple[Option, ...], tuple[OptionGroup, ...]]:
    arguments: list[Option] = []
    groups: dict[str, list[Option]] = {}
    for argument in app.assemble_argument_collection():
        if not argument.show:
            continue
        option = _option(argument)
        if argument.names[0].startswith("-"):
            title = str(argument.parameter.group[0].name)  # type: ignore[index]
            groups.setdefault(OPTIONS if title == "Parameters" else title, []).append(option)
        else:
            arguments.append(option)
    return tuple(arguments), tuple(OptionGroup(title, tuple(group)) for title, group in groups.items())


def _option(argument: Argument) -> Option:
    choices = _choices(argument)
    tokens, repeated = argument.token_count()
    return Option(
        names=tuple(sorted(argument.names, key=lambda name: not name.startswith("--"))),
        value="" if tokens == 0 else _value_name(argument, choices),
        about=" ".join((argument.parameter.help or "").split()),
        choices=choices,
        default=_default(argument),
        required=bool(argument.required),
        repeated=bool(repeated),
        is_path=_type_name(argument) == "Path",
    )


def _choices(argument: Argument) -> tuple[str, ...]:
    formats = [getattr(each, "formats", ()) for each in _validators(argument)]
    choices = argument.get_choices() or next((each for each in formats if each), ())
    return tuple(choice for choice in choices if choice)


def _validators(argument: Argument) -> tuple[Any, ...]:
    validator = argument.parameter.validator
    return validator if isinstance(validator, tuple) else (validator,)


def _value_name(argument: Argument, choices: Sequence[str]) -> str:
    return "|".join(choices) if choices else VALUE_NAMES.get(_type_name(argument), "TEXT")


def _type_name(argument: Argument) -> str:
    """Of `Path | None` and of `tuple[str, ...]`: Path, str."""
    return next(
        (name for name in ("Path", "int", "float") if re.search(rf"\b{name}\b", str(argument.hint))), "str"
    )


def _default(argument: Argument) -> str:
    default = argument.field_info.default
    if argument.required or argument.parameter.show_default is False or default is argument.field_info.empty:
        return ""
    if any(default is nothing for nothing in NOT_TOLD):
        return ""
    is_told = "Default:" in (argument.parameter.help or "")
    return "" if is_told or not isinstance(default, str | int | float | Path) else str(default)
