"""A user's change to the code, loaded before any world starts: `--patch FILE.py`."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import msgspec


class BadPatch(Exception):
    """One line: what is wrong with the file."""


def load(file: Path) -> None:
    """Run the file, once, in this interpreter. There is no way back: use a process for each patch. Load it
    before what it changes is imported by name elsewhere. It may import what is beside it, and what is where
    the person is: as with `python FILE.py` and `python -m`."""
    spec = importlib.util.spec_from_file_location(f"fathom_patch_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BadPatch(f"{file} is no Python file")
    sys.path += [place for place in (str(file.resolve().parent), str(Path.cwd())) if place not in sys.path]
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise BadPatch(f"{file} could not be loaded: {type(error).__name__}: {error}") from error


class Bug(msgspec.Struct, frozen=True):
    """A patch of the zoo, as it describes itself."""

    name: str
    about: str
    file: Path
    scenarios: tuple[str, ...]
    breaks: str = ""


def bugs(folder: Path) -> list[Bug]:
    """Read, not loaded. In the order of their names."""
    files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
    found = [described(file) for file in files]
    for bug in found:
        if not bug.scenarios:
            raise BadPatch(f"{bug.file} does not say in which SCENARIOS its bug lives")
    return found


def described(file: Path) -> Bug:
    """What a patch says of itself. One that nobody wrote for the zoo may say nothing."""
    try:
        tree = ast.parse(file.read_text(), filename=str(file))
    except OSError:
        raise BadPatch(f"{file} is no Python file") from None
    except (SyntaxError, ValueError) as error:
        raise BadPatch(f"{file} could not be loaded: {type(error).__name__}: {error}") from error
    facts = {}
    for node in tree.body:
        name = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(name, ast.Name) and name.id in {"SCENARIOS", "BREAKS"}:
            facts[name.id] = ast.literal_eval(node.value)
    return Bug(
        name=file.stem.replace("_", "-"),
        about=" ".join((ast.get_docstring(tree) or "").split()),
        file=file,
        scenarios=tuple(facts.get("SCENARIOS", ())),
        breaks=str(facts.get("BREAKS", "")),
    )
