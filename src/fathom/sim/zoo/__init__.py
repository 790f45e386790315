"""Known bugs, put back: each file is a patch (`--patch FILE.py`) that the simulator must find.

A patch is a Python file that changes code when it is loaded. Its docstring says what the bug is; two
constants say where it lives and what it breaks:

    SCENARIOS = ("informer-relists",)
    BREAKS = "informer revision never goes back"

`fathom sim zoo` reads them without loading the file.
"""

from __future__ import annotations

from typing import Any


def put_back(where: Any, name: str, bug: Any) -> None:
    """The bug, in the place of what is right. Types are no help here: a bug need not fit."""
    setattr(where, name, bug)
