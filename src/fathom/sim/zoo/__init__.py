"""Known bugs: each file is a patch (`--patch FILE.py`) that puts one back, and the simulator must find it.

A patch is a Python file that changes code when it is loaded. Its docstring says what the bug is; two
constants say where it lives and what it breaks:

    SCENARIOS = ("informer-relists",)
    BREAKS = "informer revision never goes back"

`fathom sim zoo` reads them without loading the file.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import FunctionType
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


def rewrite(function: Any, *pieces: str) -> None:
    """Replace pieces of a function's source (right, wrong, right, wrong, …) in place: also for modules that
    have imported it by name. Each right piece must be there once: if the code moved away from its patch, it
    would only seem safe."""
    function = inspect.unwrap(function)
    source = inspect.getsource(function)
    for right, wrong in zip(pieces[::2], pieces[1::2], strict=True):
        if source.count(right) != 1:
            raise ValueError(f"{function.__qualname__} has {source.count(right)} times: {right.strip()}")
        source = source.replace(right, wrong)
    function.__code__ = _compiled(function, source).__code__


def _compiled(function: FunctionType, source: str) -> FunctionType:
    tree = ast.increment_lineno(ast.parse(textwrap.dedent(source)), function.__code__.co_firstlineno - 1)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    definition.decorator_list = []
    namespace: dict[str, Any] = {}
    flags = annotations.compiler_flag  # As the module has it: annotations are not evaluated.
    code = compile(tree, function.__code__.co_filename, "exec", flags, dont_inherit=True)
    exec(code, function.__globals__, namespace)
    compiled: FunctionType = namespace[definition.name]
    return compiled
