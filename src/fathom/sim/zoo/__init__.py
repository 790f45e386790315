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
    """The bug, in the place of what is right. Types are no help here: a bug need not fit. But there must be
    something in its place: code that has moved away from its patch would only seem to be safe."""
    if not hasattr(where, name):
        raise AttributeError(f"{where.__name__} has no {name} any more")
    setattr(where, name, bug)


def pin(where: type, name: str, value: Any) -> None:
    """What objects of a class set themselves: it says this, whatever they set."""
    setattr(where, name, property(lambda self: value, lambda self, _: None))
