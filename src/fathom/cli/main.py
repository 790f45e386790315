"""The entry point: runs the command, and turns every error into one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fathom import __version__
from fathom.cli.commands import COMMANDS, help_lines
from fathom.cli.problem import INTERRUPTED, USAGE_OR_ENVIRONMENT, Problem
from fathom.terminal import say, say_text

if TYPE_CHECKING:
    from cyclopts import App

DEBUG_VARIABLE = "FATHOM_DEBUG"
LEADING = frozenset({"-n", "--namespace", "--kubeconfig"})  # Flags that may stand before the command.
HELP = frozenset({"--help", "-h", "help"})


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command; its exit code. Users see no traceback unless they ask for one."""
    debug = "--debug" in arguments or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    try:
        words = command_first([word for word in arguments if word != "--debug"])
        if not words or words[0] in HELP:
            say(*help_lines())
            return 0
        return int(make_app()(words) or 0)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # The reader is gone (`fathom … | head`): print nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except Exception as error:
        if debug:
            say_text(traceback.format_exc(), err=True)
        say(f"fathom: error: {one_line(error)}", err=True)
        return error.exit_code if isinstance(error, Problem) else USAGE_OR_ENVIRONMENT


def command_first(words: list[str]) -> list[str]:
    """The words with flags behind the command that stand before it, as kubectl allows:
    `fathom -n shop get pods`."""
    flags = 0
    while len(words) > flags + 1 and words[flags].partition("=")[0] in LEADING:
        flags += 1 if "=" in words[flags] else 2
    return [*words[flags:], *words[:flags]]


def one_line(error: Exception) -> str:
    """The line to print: our own messages as they are, an unexpected error with its type and how to see
    more."""
    if isinstance(error, ExceptionGroup):  # Tasks that failed together; the first error is reported.
        return one_line(error.exceptions[0])
    message = " ".join(str(error).split())
    if isinstance(error, Problem) or type(error).__module__.startswith("cyclopts"):
        return message
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    kind = type(error).__name__
    return f"{kind}: {message or 'no message'} (set {DEBUG_VARIABLE}=1 to see the traceback)"


def make_app() -> App:
    """Only the command that runs is imported: importing all takes longer than a question."""
    from cyclopts import App  # noqa: PLC0415  # Slow, and help needs none of it.

    app = App(
        name="fathom",
        help="A scheduler control plane for the Kubernetes API that explains and replays its decisions.",
        help_epilogue="Add --debug, or set FATHOM_DEBUG=1, to see the traceback of an error.",
        help_format="plaintext",
        version=version_text,
        exit_on_error=False,
        print_error=False,
        # `run` translates Ctrl-C and exit codes.
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for command, where in COMMANDS.items():
        app.command(where, name=command)
    app.command(version)
    return app


def version_text() -> str:
    return f"fathom {__version__}"


def version() -> None:
    """Show the versions of fathom and Python."""
    say(f"{version_text()} (Python {sys.version.split()[0]})")


if __name__ == "__main__":
    main()
