"""The entry point: runs the command, and turns every error into one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from fathom.cli.problem import INTERRUPTED, USAGE_OR_ENVIRONMENT, Problem
from fathom.terminal import say, say_text

DEBUG_VARIABLE = "FATHOM_DEBUG"

# Command -> its function or its own commands. Only the one that runs is imported: importing all takes longer
# than a question.
COMMANDS = {
    "up": "fathom.cli.up:up",
    "down": "fathom.cli.down:down",
    "demo": "fathom.cli.demo:app",
    "doctor": "fathom.cli.doctor:doctor",
    "serve": "fathom.cli.serve:app",
    "kubeconfig": "fathom.cli.kubeconfig:kubeconfig",
    "get": "fathom.cli.objects.get:get",
    "describe": "fathom.cli.objects.describe:describe",
    "apply": "fathom.cli.objects.apply:apply",
    "delete": "fathom.cli.objects.delete:delete",
    "scale": "fathom.cli.objects.scale:scale",
    "rollout": "fathom.cli.objects.rollout:app",
    "logs": "fathom.cli.objects.logs:logs",
    "cordon": "fathom.cli.objects.cordon:cordon",
    "uncordon": "fathom.cli.objects.cordon:uncordon",
    "store": "fathom.cli.store:app",
    "bench": "fathom.cli.bench:app",
    "record": "fathom.cli.record:app",
    "replay": "fathom.cli.replay:replay",
    "override": "fathom.cli.override:app",
    "repair": "fathom.cli.repair:app",
    "runbook": "fathom.cli.runbook:app",
    "sim": "fathom.cli.sim:app",
    "status": "fathom.cli.status:status",
    "why": "fathom.cli.why:why",
    "decisions": "fathom.cli.why:decisions",
    "timeline": "fathom.cli.timeline:timeline",
    "coupling": "fathom.cli.coupling:coupling",
}


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command; its exit code. Users see no traceback unless they ask for one."""
    debug = "--debug" in arguments or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    try:
        words = [word for word in arguments if word != "--debug"]
        return int(make_app(words)(words) or 0)
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


def one_line(error: Exception) -> str:
    """The line to print: our own messages as they are, an unexpected error with its type and how to see
    more."""
    if isinstance(error, ExceptionGroup):  # Tasks that failed together; the first error is reported.
        return one_line(error.exceptions[0])
    message = " ".join(str(error).split())
    if isinstance(error, Problem | CycloptsError):
        return message
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    kind = type(error).__name__
    return f"{kind}: {message or 'no message'} (set {DEBUG_VARIABLE}=1 to see the traceback)"


def make_app(words: Sequence[str] = ()) -> App:
    """`words`: the command line. All commands are imported unless it names one: help shows what each does."""
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
    for command in () if words and words[0] in COMMANDS else COMMANDS:
        app[command]  # Imports it.
    return app


def version_text() -> str:
    from importlib.metadata import version as installed_version  # noqa: PLC0415  # Slow, and rarely asked for.

    return f"fathom {installed_version('fathom')}"


def version() -> None:
    """Show the versions of fathom and Python."""
    say(f"{version_text()} (Python {sys.version.split()[0]})")


if __name__ == "__main__":
    main()
