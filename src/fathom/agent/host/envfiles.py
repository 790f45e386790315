"""Variables from files that a pod's own containers wrote into one of its volumes (`fileKeyRef`).

The agent may read more than the pod: no link is followed, and only a plain file with one name is read.
"""

from __future__ import annotations

import re
from pathlib import Path

from fathom.agent.host.environment import Unresolved
from fathom.agent.safe_files import closing, open_top, read_file
from fathom.model.objects import Obj, lookup

BYTES_MAX = 1 << 20
_NOTHING = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_ASSIGNED = re.compile(r"[ \t]*([^\s=#][^\s=]*)='([^']*)'[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_EMPTY = re.compile(r"[ \t]*([^\s=#][^\s=]*)=[ \t]+[^\n]*(?:\n|\Z)")  # As in a shell: `A= 'x'`.


def read_env_files(container: Obj, volumes: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Variables by volume and path. Raises `Unresolved`; a missing file has no variables."""
    variables = {}
    for variable in container.get("env") or ():
        reference = lookup(variable, "valueFrom", "fileKeyRef")
        if reference:
            volume, path = str(reference.get("volumeName")), str(reference.get("path"))
            variables[volume, path] = variables_of(_text_of(volumes, f"{volume}/{path}", path), path)
    return variables


def variables_of(text: str, name: str) -> dict[str, str]:
    variables: dict[str, str] = {}
    at = 0
    while at < len(text):
        if nothing := _NOTHING.match(text, at):
            at = nothing.end()
        elif match := _ASSIGNED.match(text, at) or _EMPTY.match(text, at):
            variables.setdefault(match[1], match[2] if match.re is _ASSIGNED else "")
            at = match.end()
        else:
            line = text.count("\n", 0, at) + 1
            raise Unresolved(
                f"{name}, line {line}: variables must be written as NAME='value', in single quotes"
            )
    return variables


def _text_of(volumes: Path, path: str, shown: str) -> str:
    try:
        with closing(open_top(volumes)) as top:
            return read_file(top, path, BYTES_MAX).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Unresolved(f"{shown}: {error.strerror}") from None
