"""Known bugs: each file is a patch (`--patch FILE.py`) that puts one back, and the simulator must find it.

A patch is a Python file that changes code when it is loaded. Its docstring says what the bug is; two
constants say where it lives and what it breaks:

    SCENARIOS = ("informer-relists",)
    BREAKS = "informer revision never goes back"

`fathom sim zoo` reads them without loading the file.
"""

from __future__ import annotations

from typing import Any


def put_back(where: Any, name: str, bug: Any) -> None:
    """Put the bug in the place of the right code. It need not have the right types. But there must be
    something to replace: if the code moved away from its patch, it would only seem safe."""
    if not hasattr(where, name):
        raise AttributeError(f"{where.__name__} no longer has {name}")
    setattr(where, name, bug)


def pin(where: type, name: str, value: Any) -> None:
    """Give all objects of a class this value of an attribute, whatever they set it to."""
    setattr(where, name, property(lambda self: value, lambda self, _: None))
