"""The entry point: runs the command, and turns every error into one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fathom import __version__
from fathom.cli.commands import ABOUT, COMMANDS, front_page
from fathom.cli.configuration import CONFIGURED, configure, split_config
from fathom.cli.problem import INTERRUPTED, USAGE_OR_ENVIRONMENT, Problem
from fathom.terminal import say, say_document, terminal_width

if TYPE_CHECKING:
    from cyclopts import App

DEBUG_VARIABLE = "FATHOM_DEBUG"
LEADING = frozenset({"-n", "--namespace", "--kubeconfig"})  # Flags that may stand before the command.
HELP = frozenset({"--help", "-h"})
COMPLETE = "__complete"  # For shells: see `complete`.


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command; its exit code. Users see no traceback unless they ask for one."""
    if arguments[:1] == [COMPLETE]:
        from fathom.cli.complete import complete  # noqa: PLC0415

        return complete(arguments[1:])
    debug = "--debug" in arguments or is_debugged()
    try:
        words = command_first([word for word in arguments if word != "--debug"])
        if not words or words[0] in HELP or words == ["help"]:
            print_help(front_page(terminal_width()))
            return 0
        return _run_words(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # The reader is gone (`fathom … | head`): print nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except Exception as error:
        if debug:
            say_document(traceback.format_exc(), err=True)
        say(f"fathom: error: {one_line(error)}", err=True, style="red")
        return error.exit_code if isinstance(error, Problem) else USAGE_OR_ENVIRONMENT


def command_first(words: list[str]) -> list[str]:
    """The words with flags behind the command that stand before it, as kubectl allows:
    `fathom -n shop get pods`."""
    flags = 0
    while len(words) > flags + 1 and words[flags].partition("=")[0] in LEADING:
        flags += 1 if "=" in words[flags] else 2
    before, rest = words[:flags], words[flags:]
    end = rest.index("--") if "--" in rest else len(rest)  # What follows is for another program.
    return [*rest[:end], *before, *rest[end:]]


def _run_words(words: list[str]) -> int:
    if words[0] == "help":  # `fathom help why`, as kubectl has it.
        words = [*words[1:], "--help"]
    file = None
    if words[0] in CONFIGURED:
        words, file = split_config(words)
    app, options = make_app(), words[: words.index("--")] if "--" in words else words
    asks_for_help = bool(HELP.intersection(options))
    command = command_words(app, options)
    if command is not None and (asks_for_help or _is_unfinished(app, words)):
        from fathom.cli.pages.help_text import help_lines  # noqa: PLC0415
        from fathom.cli.pages.reading import page_of  # noqa: PLC0415

        print_help(help_lines(page_of(app, command), terminal_width()))
        return 0
    if command is not None and words[0] in CONFIGURED:
        configure(app, command, file)
    # An unknown command is for the parser to complain about, also if help is asked for.
    return int(app([word for word in words if not asks_for_help or word not in HELP]) or 0)


def _is_unfinished(app: App, words: Sequence[str]) -> bool:
    """Whether the words name only commands that have commands of their own: `fathom store`."""
    for word in words:
        if word not in app or word.startswith("-"):
            return False
        app = app[word]
    return app.default_command is None


def command_words(app: App, words: Sequence[str]) -> list[str] | None:
    """Those of the words that name the command; None if there is no such command."""
    command: list[str] = []
    for word in words:
        if word.startswith("-") or app.default_command is not None:
            break
        if word not in app:
            return None
        app = app[word]
        command.append(word)
    return command


def print_help(lines: list[str]) -> None:
    from fathom.cli.pages.help_text import is_heading  # noqa: PLC0415

    for at, line in enumerate(lines):
        say(line, style="bold" if is_heading(lines, at) else "")


def is_debugged() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def one_line(error: Exception) -> str:
    """The line to print: our own messages as they are, an unexpected error with its type and how to see
    more."""
    if isinstance(error, ExceptionGroup):  # Tasks that failed together; the first error is reported.
        return one_line(error.exceptions[0])
    message = " ".join(str(error).split())
    if isinstance(error, Problem):
        return message
    if type(error).__module__.startswith("cyclopts"):
        command = " ".join(("fathom", *(getattr(error, "command_chain", None) or ())))
        return f"{message} See `{command} --help`."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    kind = type(error).__name__
    return f"{kind}: {message or 'no message'} (set {DEBUG_VARIABLE}=1 to see the traceback)"


def make_app() -> App:
    """Only the command that runs is imported: importing all takes longer than a question."""
    from cyclopts import App  # noqa: PLC0415  # Slow, and help needs none of it.

    app = App(
        name="fathom",
        help=ABOUT,
        version=version_text,
        exit_on_error=False,
        print_error=False,
        # `run` translates Ctrl-C and exit codes.
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for command, where in COMMANDS.items():
        app.command(where, name=command)
    return app


def version_text() -> str:
    return f"fathom {__version__}"


if __name__ == "__main__":
    main()
