"""The start of `fathom`. Ctrl-C prints no traceback even while the commands are still being loaded."""

from __future__ import annotations

import sys

from fathom.cli.problem import INTERRUPTED


def main() -> None:
    try:
        from fathom.cli.main import main as run_command_line  # noqa: PLC0415  # This is what takes the moment.
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run_command_line()


def complete_for_kubectl() -> None:
    """`kubectl_complete-fathom`: kubectl runs it to complete `kubectl fathom …`."""
    from fathom.cli.complete import complete  # noqa: PLC0415

    sys.exit(complete(sys.argv[1:]))
