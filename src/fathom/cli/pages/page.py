"""What one page says. Pure."""

from __future__ import annotations

import msgspec

PROGRAM = "fathom"


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """An argument, whose only name is in capitals, or a flag, whose names begin with hyphens."""

    names: tuple[str, ...]  # As they are typed, the long one first.
    value: str  # What a value is called; '' for a flag without one.
    about: str
    choices: tuple[str, ...] = ()
    default: str = ""  # '' where saying it would tell nothing.
    required: bool = False
    repeated: bool = False
    is_path: bool = False


class OptionGroup(msgspec.Struct, frozen=True):
    title: str
    options: tuple[Option, ...]


class Example(msgspec.Struct, frozen=True):
    command: str
    about: str = ""  # What it is good for, where the command alone does not say so.


class CommandSummary(msgspec.Struct, frozen=True):
    name: str
    about: str


class CommandPage(msgspec.Struct, frozen=True, kw_only=True):
    """One command; or one that only has commands of its own."""

    words: tuple[str, ...]  # 'override', 'create'.
    paragraphs: tuple[str, ...]
    examples: tuple[Example, ...]
    arguments: tuple[Option, ...] = ()
    groups: tuple[OptionGroup, ...] = ()
    commands: tuple[CommandSummary, ...] = ()

    @property
    def name(self) -> str:
        return " ".join((PROGRAM, *self.words))

    @property
    def summary(self) -> str:
        """The first sentence."""
        return first_sentence(self.paragraphs[0]) if self.paragraphs else ""

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(option for group in self.groups for option in group.options)

    @property
    def usage(self) -> str:
        if self.commands:
            return f"{self.name} COMMAND"
        words = [self.name]
        words += [f"{option.names[0]} {option.value}" for option in self.options if option.required]
        words += [argument_usage(argument) for argument in self.arguments]
        if any(not option.required for option in self.options):
            words.append("[OPTIONS]")
        return " ".join(words)


def argument_usage(argument: Option) -> str:
    """'NAME', '[NAME]', '[OBJECT...]'"""
    name = f"{argument.names[0]}..." if argument.repeated else argument.names[0]
    return name if argument.required else f"[{name}]"


def option_usage(option: Option) -> str:
    """'-n, --namespace STR': the short name first, as kubectl and man pages write it."""
    names = ", ".join(sorted(option.names, key=lambda name: name.startswith("--")))
    return f"{names} {option.value}" if option.value and option.names[0].startswith("-") else names


def option_text(option: Option) -> str:
    """What is said about an option: its help, then what it may be and what it is otherwise."""
    notes = []
    # The value of a flag is written as its choices; an argument has a name.
    if option.choices and not option.names[0].startswith("-"):
        notes.append(f"One of {', '.join(option.choices)}.")
    if option.default:
        notes.append(f"Default: {option.default}.")
    if option.required and option.names[0].startswith("-"):
        notes.append("Required.")
    if option.repeated and "repeat" not in option.about.lower() and option.names[0].startswith("-"):
        notes.append("May be repeated.")
    return " ".join((option.about, *notes)).strip()


def first_sentence(paragraph: str) -> str:
    end = next(
        (at for at in range(len(paragraph)) if paragraph[at : at + 2] in {". ", ".\n"}), len(paragraph) - 1
    )
    return paragraph[: end + 1]
