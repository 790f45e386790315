"""The command that would help, of an explanation. Pure."""

from __future__ import annotations

from fathom.cli.ask.top.seen import Answer
from fathom.cli.ask.typed_commands import for_this_machine


def helping_command(explanation: Answer | None) -> str:
    """The change that an explanation proposes, as it can be typed on this machine; '' if there is none."""
    command = ((explanation or {}).get("change") or {}).get("command")
    return for_this_machine(str(command)) if command else ""
