"""The commands that an explanation proposes, for a machine without kubectl.

An API server proposes kubectl's words, since it does not know who asks. `fathom` takes the same words.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

KUBECTL, FATHOM = "kubectl", "fathom"


def for_this_machine(command: str) -> str:
    return command if shutil.which(KUBECTL) else with_fathom(command)


def with_fathom(command: str) -> str:
    """The command with `fathom` wherever a shell would start kubectl: not inside quotes."""
    parts, end = [], 0
    for start in _starts(command):
        if command.startswith(f"{KUBECTL} ", start):
            parts += [command[end:start], FATHOM]
            end = start + len(KUBECTL)
    return "".join([*parts, command[end:]])


def _starts(command: str) -> Iterator[int]:
    """Where a command begins: at the start, and after `|`, `&&` and `;`."""
    quote, expects_command = "", True
    for place, char in enumerate(command):
        if quote:
            quote = "" if char == quote else quote
            continue
        if expects_command and not char.isspace():
            yield place
            expects_command = False
        if char in "'\"":
            quote = char
        elif char in "|&;":
            expects_command = True
