"""Replays a tape with one line of a decider changed, in a process of its own.

    python -m tests.replay.changed_line lines TAPE RUN          JSON of all changes of lines that it executes
    python -m tests.replay.changed_line MODULE:LINE:N TAPE RUN  a replay with that change, compared

Which lines: those of deciders (`DECIDERS`: the pure code that decides, of every recorded process) that the
replay executes. Which changes: see `line_changes`; each changes one line.

Which changes count. The rule is applied to what the deciders return, not to what the replay finds: a change
counts if it alters a decision (`DECISIONS`: plans, placements, preemptions, statuses) that a decider returns
to the code which carries it out, in any call of the whole replay; or if a decider fails that did not fail.
The decisions are those of the same calls, in order, without the change. A change after which a decider never
returns does not count: nothing can be compared.
"""

from __future__ import annotations

import ast
import dis
import importlib.util
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Set
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, GeneratorType, ModuleType
from typing import Any

import msgspec
import numpy as np
from tests.replay.line_changes import changed_tree, changes_of

import fathom
from fathom.schedule.decide.verdicts import NodeVerdicts

SOURCE = Path(fathom.__file__).parent
# The pure part of what decides, in every recorded process.
DECIDERS = (
    "schedule/decide/*.py",
    "schedule/decide/*/*.py",
    "controllers/*/plan*.py",
    "controllers/*/proportions.py",
    "controllers/*/revisions.py",
    "controllers/*/scale_down_order.py",
    "controllers/*/completion_indexes.py",
    "controllers/*/brake.py",
    "controllers/*/pod_stages.py",
    "controllers/*/missing_pods.py",
    "schedule/policy_rollout/plan*.py",
    "agent/plan.py",
    "agent/status.py",
    "agent/backoff.py",
    "gateway/routes.py",
    "gateway/budget.py",
)
# What they return to be carried out, by type or by function.
DECISIONS = frozenset({"Plan", "Placement", "Preemption", "PodPlan"})
DECIDING_FUNCTIONS = frozenset({"pod_status"})
# The decider only tries, to see whether a waiting pod should be looked at.
TRIALS = frozenset({"waking.py", "policy_trial.py"})
DEPTH_MAX = 12
RETURNS = frozenset(dis.opmap[name] for name in ("RETURN_VALUE", "YIELD_VALUE", "RETURN_GENERATOR"))


def deciding_files() -> dict[str, str]:
    """File name -> module, of the deciders."""
    paths = sorted({path for pattern in DECIDERS for path in SOURCE.glob(pattern)})
    return {
        str(path): f"fathom.{path.relative_to(SOURCE).as_posix().removesuffix('.py').replace('/', '.')}"
        for path in paths
        if path.name != "__init__.py"
    }


# What deciders give to others.


class Values:
    """A checksum for each decision that crosses from a decider to other code, in order."""

    def __init__(self, files: Set[str]) -> None:
        self._files = files
        self.checksums: list[int] = []

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "return" or frame.f_code.co_filename not in self._files:
            return
        caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        if caller in self._files or caller.rpartition("/")[2] in TRIALS:
            return
        if frame.f_code.co_name in DECIDING_FUNCTIONS or _is_decision(argument):
            self.checksums.append(checksum_of(argument))
        elif argument is None and frame.f_code.co_code[frame.f_lasti] not in RETURNS:
            self.checksums.append(0)  # It raised.


def _is_decision(value: Any) -> bool:
    if isinstance(value, list) and value:
        value = value[0]
    return type(value).__name__ in DECISIONS


def checksum_of(value: Any) -> int:
    return zlib.crc32("\0".join(_parts(value, 0)).encode(errors="surrogatepass"))


def _parts(value: Any, depth: int) -> Iterator[str]:
    if value is None or isinstance(value, str | int | float | bytes):
        yield repr(value)
    elif isinstance(value, np.ndarray | np.generic):
        yield f"{value.dtype}{np.asarray(value).tolist() if value.dtype != object else '...'}"
    elif depth > DEPTH_MAX or isinstance(value, GeneratorType) or callable(value):
        yield type(value).__qualname__
    elif isinstance(value, NodeVerdicts):  # The reason of each node, wherever the log has it.
        yield from (repr(value.log.reasons[code]) for code in value.codes().tolist())
    elif isinstance(value, Mapping):
        for key, item in value.items():  # The order is what requests are made in.
            yield from _parts(key, depth + 1)
            yield from _parts(item, depth + 1)
    elif isinstance(value, frozenset | set):
        yield from sorted(part for item in value for part in _parts(item, depth + 1))
    elif isinstance(value, list | tuple) or hasattr(value, "popleft"):
        yield f"{type(value).__qualname__}{len(value)}"
        for item in value:
            yield from _parts(item, depth + 1)
    else:
        yield type(value).__qualname__
        for item in _fields(value):
            yield from _parts(item, depth + 1)


def _fields(value: Any) -> Iterator[Any]:
    if isinstance(value, msgspec.Struct):
        yield from (getattr(value, name) for name in value.__struct_fields__)
    elif hasattr(value, "__dict__") and type(value).__module__.startswith("fathom.schedule.decide"):
        yield from (item for name, item in sorted(vars(value).items()) if not name.startswith("_"))


# What a replay executes.


class _Lines:
    """Executed lines inside functions of the deciders."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self.lines: set[tuple[str, int]] = set()

    def call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code: CodeType = frame.f_code
        return self.line if code.co_filename in self._files and code.co_name != "<module>" else None

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self.line


def executed_changes(tape: Path, run: int) -> dict[str, Any]:
    """MODULE:LINE:N of all changes of lines that the replay executed, and the values without a change."""
    files = deciding_files()
    for module in files.values():
        importlib.import_module(module)  # What runs at import is not executed by the tape.
    lines, values = _Lines(files), Values(files.keys())
    sys.settrace(lines.call)
    try:
        assert replayed(tape, run, lambda: None)["matched"]
    finally:
        sys.settrace(None)
    assert replayed(tape, run, lambda: sys.setprofile(values.profile))["matched"]
    changes = [
        f"{files[file]}:{line}:{number}"
        for file, line in sorted(lines.lines)
        for number in range(len(changes_of(ast.parse(Path(file).read_text()), line)))
    ]
    return {"changes": changes, "values": values.checksums}


def replayed(tape: Path, run: int, begin: Callable[[], object]) -> dict[str, Any]:
    """The result of a replay, as `fathom replay --json` has it."""
    from fathom.record.live_decisions import read_process
    from fathom.record.replay import replay
    from fathom.record.tape import reels
    from fathom.seams.process import load_entry

    (reel,) = [reel for reel in reels(tape) if reel.run == run]
    live = read_process(tape.parent.parent, tape.name, since_ns=reel.birth().epoch_ns).live
    load_entry(reel.birth().entry)
    begin()
    try:
        result = replay(reel.records(), live=live)
    finally:
        sys.setprofile(None)
    return dict(msgspec.to_builtins(result))


class ChangedModule(MetaPathFinder, Loader):
    """Loads one module with one line changed."""

    def __init__(self, module: str, line: int, number: int) -> None:
        self._module, self._line, self._number = module, line, number

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._module else None

    def exec_module(self, module: ModuleType) -> None:
        file = SOURCE.parent / f"{self._module.replace('.', '/')}.py"
        tree = changed_tree(ast.parse(file.read_text()), self._line, self._number)
        exec(compile(tree, str(file), "exec"), module.__dict__)


def with_change(tape: Path, run: int) -> dict[str, Any]:
    values = Values(deciding_files().keys())
    result = replayed(tape, run, lambda: sys.setprofile(values.profile))
    return {"result": result, "values": values.checksums}


def main(what: str, tape: Path, run: int) -> dict[str, Any]:
    if what == "lines":
        return executed_changes(tape, run)
    module, line, number = what.rsplit(":", 2)
    sys.meta_path.insert(0, ChangedModule(module, int(line), int(number)))
    return with_change(tape, run)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
