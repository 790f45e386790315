"""A user's change to the code, loaded before any world starts: `--patch FILE.py`."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class BadPatch(Exception):
    """The message is one line: what is wrong with the file."""


def load(file: Path) -> None:
    """Run the file, once, in this interpreter. A patch cannot be undone: use a process for each. Load it
    before what it changes is imported by name elsewhere. It may import modules from its own directory and
    from the current one: as with `python FILE.py` and `python -m`."""
    spec = importlib.util.spec_from_file_location(f"fathom_patch_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BadPatch(f"{file} is not a Python file")
    sys.path += [place for place in (str(file.resolve().parent), str(Path.cwd())) if place not in sys.path]
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _unloadable(file, error) from error


def _unloadable(file: Path, error: BaseException) -> BadPatch:
    """In one line, whatever the error's message is."""
    return BadPatch(f"{file} could not be loaded: {type(error).__name__}: {' '.join(str(error).split())}")


class Bug(msgspec.Struct, frozen=True):
    """A patch of the zoo, as its file describes it."""

    name: str
    about: str
    file: Path
    scenarios: tuple[str, ...]
    breaks: str = ""


def bugs(folder: Path) -> list[Bug]:
    """The bugs of a folder, in the order of their names. The files are parsed, not run."""
    files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
    all_bugs = [described(file) for file in files]
    for bug in all_bugs:
        if not bug.scenarios:
            raise BadPatch(f"{bug.file} does not name the SCENARIOS that its bug breaks")
    return all_bugs


def described(file: Path) -> Bug:
    """The description in a patch's file; fields are empty for a patch that was not written for the zoo."""
    try:
        tree = ast.parse(file.read_text(), filename=str(file))
    except OSError:
        raise BadPatch(f"{file} is not a Python file") from None
    except (SyntaxError, ValueError) as error:
        raise _unloadable(file, error) from error
    facts = dict(_facts(file, tree))
    scenarios = facts.get("SCENARIOS", ())
    return Bug(
        name=file.stem.replace("_", "-"),
        about=" ".join((ast.get_docstring(tree) or "").split()),
        file=file,
        scenarios=(scenarios,) if isinstance(scenarios, str) else tuple(scenarios),
        breaks=str(facts.get("BREAKS", "")),
    )


def _facts(file: Path, tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        names = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for name in names:
            if not isinstance(name, ast.Name) or name.id not in {"SCENARIOS", "BREAKS"}:
                continue
            try:
                yield name.id, ast.literal_eval(node.value)  # type: ignore[attr-defined]  # Both have one.
            except (ValueError, TypeError):
                raise BadPatch(f"{file}: {name.id} must be a literal: the file is parsed, not run") from None
