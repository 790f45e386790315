"""Replays a file with one line of a decider changed, in a process of its own.

    python -m tests.replay.changed_line lines FILE           the lines of deciders that a replay executes
    python -m tests.replay.changed_line MODULE:LINE FILE …   `fathom replay FILE …` with that line changed

A condition is negated; a returned value is replaced by None or its opposite; another statement is left out.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import fathom
from fathom.cli.main import run

SOURCE = Path(fathom.__file__).parent
# The pure part of what decides.
DECIDERS = ("schedule/decide/", "controllers/")
STATEMENTS = (ast.If, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.While)


def deciding_files() -> dict[str, str]:
    """File name -> module, of the deciders."""
    files = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        planned = place.startswith("schedule/decide/") or path.name.startswith("plan")
        if place.startswith(DECIDERS) and planned:
            files[str(path)] = f"fathom.{place.removesuffix('.py').replace('/', '.')}"
    return files


class _Lines:
    """Executed lines inside functions of the deciders; `count`: how often each."""

    def __init__(self) -> None:
        self.files = deciding_files()
        self.lines: set[tuple[str, int]] = set()

    def call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code: CodeType = frame.f_code
        return self.line if code.co_filename in self.files and code.co_name != "<module>" else None

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines.add((self.files[frame.f_code.co_filename], frame.f_lineno))
        return self.line


def executed_lines(arguments: Sequence[str]) -> list[str]:
    """MODULE:LINE of statements that can be changed and that the replay executed."""
    seen = _Lines()
    for module in sorted(set(seen.files.values())):
        importlib.import_module(module)  # What runs at import is not executed by the tape.
    sys.settrace(seen.call)
    try:
        assert run(["replay", *arguments, "--json"]) == 0
    finally:
        sys.settrace(None)
    changeable = {module: _changeable(Path(file)) for file, module in seen.files.items()}
    return [f"{module}:{line}" for module, line in sorted(seen.lines) if line in changeable[module]]


def _changeable(file: Path) -> set[int]:
    tree = ast.parse(file.read_text())
    return {node.lineno for node in ast.walk(tree) if isinstance(node, STATEMENTS)}


class ChangedModule(MetaPathFinder, Loader):
    """Loads one module with one line changed."""

    def __init__(self, module: str, line: int) -> None:
        self._module, self._line = module, line

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._module else None

    def exec_module(self, module: ModuleType) -> None:
        file = SOURCE.parent / f"{self._module.replace('.', '/')}.py"
        tree = _Change(self._line).visit(ast.parse(file.read_text()))
        exec(compile(ast.fix_missing_locations(tree), str(file), "exec"), module.__dict__)


class _Change(ast.NodeTransformer):
    def __init__(self, line: int) -> None:
        self._line = line

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, STATEMENTS) and node.lineno == self._line:
            return self._changed(node)
        return self.generic_visit(node)

    def _changed(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.If | ast.While):
            node.test = ast.UnaryOp(ast.Not(), node.test)
            return node
        if isinstance(node, ast.Return):
            is_test = isinstance(node.value, ast.Compare | ast.BoolOp | ast.UnaryOp)
            value = ast.UnaryOp(ast.Not(), node.value) if is_test and node.value else ast.Constant(None)
            return ast.Return(value)
        return ast.Pass()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "lines":
        sys.stderr.write(json.dumps(executed_lines(arguments)))
        raise SystemExit(0)
    module, _, line = what.rpartition(":")
    sys.meta_path.insert(0, ChangedModule(module, int(line)))
    raise SystemExit(run(["replay", *arguments]))
