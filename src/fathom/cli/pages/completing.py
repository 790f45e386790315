"""What the last word of an unfinished command may be: a command, a flag, a value or an argument. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.cli.pages.page import CommandPage, Option

HELP = Option(names=("--help", "-h"), value="", about="Say what the command does, and how it is used.")
END_OF_OPTIONS = "--"


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be completed."""

    typed: str  # The part of the last word that is to be completed.
    prefix: str = ""  # What stands before it in the same word: '--output='.
    option: Option | None = None  # Whose value it is; None: a flag's name, if anything.
    before: tuple[str, ...] = ()  # Values that the same argument already has.
    is_flag: bool = False


def slot_of(page: CommandPage, words: Sequence[str]) -> Slot:
    """`words` follow the command's own; the last one is unfinished, and may be ''."""
    *done, typed = words
    flags = {name: option for option in (*page.options, HELP) for name in option.names}
    values: list[str] = []
    awaited: Option | None = None  # The flag whose value comes next.
    flags_end = False
    for word in done:
        if awaited is not None:
            awaited = None
        elif flags_end or not word.startswith("-") or word == "-":
            values.append(word)
        elif word == END_OF_OPTIONS:
            flags_end = True
        elif (option := flags.get(word)) is not None and option.value:
            awaited = option
    if awaited is not None:
        return Slot(typed=typed, option=awaited)
    name, equals, value = typed.partition("=")
    if not flags_end and equals and (option := flags.get(name)) is not None:
        return Slot(typed=value, prefix=f"{name}=", option=option)
    if not flags_end and typed.startswith("-"):
        return Slot(typed=typed, is_flag=True)
    argument, before = _argument(page, values)
    return Slot(typed=typed, option=argument, before=before)


def _argument(page: CommandPage, values: Sequence[str]) -> tuple[Option | None, tuple[str, ...]]:
    """The argument that comes after these values; None if there is no more."""
    for at, argument in enumerate(page.arguments):
        if argument.repeated:
            return argument, tuple(values[at:])
        if at == len(values):
            return argument, ()
    return None, ()


def flag_value(page: CommandPage, words: Sequence[str], name: str) -> str:
    """The value that a flag has among these words, '' if none."""
    option = next((option for option in page.options if name in option.names), None)
    for at, word in enumerate(words if option is not None else ()):
        assert option is not None
        if word in option.names and at + 1 < len(words):
            return words[at + 1]
        flag, equals, value = word.partition("=")
        if equals and flag in option.names:
            return value
    return ""


def flag_candidates(page: CommandPage, typed: str) -> list[tuple[str, str]]:
    """Long names, unless a short one is typed."""
    return [
        (name, option.about)
        for option in (*page.options, HELP)
        for name in option.names
        if name.startswith(typed) and (name.startswith("--") or typed == name)
    ]
