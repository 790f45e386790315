"""Steps of runs that are undone: everything that a step did is taken back, and nothing that others did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fathom.kinds.runbook_run import STEP_ANNOTATION, UNDO, UNDONE, identities_on
from fathom.model.objects import Obj, is_deleting, key_of, lookup, uid_of
from fathom.sim.world.invariants import Checker, Found, Seen

RUNS = "runbookruns.fathom.dev"
AGENT = re.compile(r"fathom runbook (\S+) ([^/]+)(/undo)?").fullmatch
STAMPS = ("resourceVersion", "generation", "managedFields")  # Of metadata: the server writes them.

Path = tuple[str, ...]
Values = dict[Path, Any]  # Of fields; None where there is nothing.


class DoneStep:
    """What a step changed in one object."""

    def __init__(self, change: Seen) -> None:
        assert change.new is not None
        self.uid, self.path, self.made = uid_of(change.new), change.path, change.old is None
        before, after = _fields(change.old or {}), _fields(change.new)
        self.before = {} if self.made else {path: before.get(path) for path in _changed(before, after)}
        self.after = {path: after.get(path) for path in self.before}
        self.now = after
        self.others: set[Path] = set()  # Fields that others than this run have changed since.
        self.is_there = True

    def look(self, change: Seen, *, by_the_run: bool) -> None:
        self.is_there = change.new is not None and not is_deleting(change.new)
        before, self.now = self.now, _fields(change.new or {})
        if not by_the_run:
            self.others.update(_changed(before, self.now))

    @property
    def left(self) -> list[Path]:
        """The fields that still have the values of this step."""
        return [
            path
            for path, given in self.after.items()
            if path not in self.others and self.now.get(path) == given != self.before[path]
        ]


class UndoingIsExact(Checker):
    """An undo gives a field back the value that it had before the step, and only where it still has the one
    that the step gave it. A step with `restore` reads Undone only when none of its values is left, one that
    made an object only when that is gone. A request that arrives after that cannot be called back."""

    name = "undoing a step takes back what it did, and nothing else"

    def __init__(self) -> None:
        self._steps: dict[str, DoneStep] = {}  # By identity: UID of the run, and the step.
        self._on: dict[str, set[str]] = {}  # By UID of an object: the steps that changed it.

    def commit(self, change: Seen) -> Found:
        if change.resource == RUNS:
            return self._recorded(change)
        match = AGENT(dict(change.headers).get("user-agent", ""))
        wrong = self._undoes(change) if match is not None and match.group(3) else None
        added = [] if match is None else list(_added(change))
        runs = {identity.partition("/")[0] for identity in added}
        for identity in self._on.get(uid_of(change.old or {}), ()):
            self._steps[identity].look(change, by_the_run=identity.partition("/")[0] in runs)
        if match is not None and not match.group(3):
            for identity in added:
                step = self._steps[identity] = DoneStep(change)
                self._on.setdefault(step.uid, set()).add(identity)
        return wrong

    def _undoes(self, change: Seen) -> str | None:
        if change.old is None or change.new is None or is_deleting(change.new):
            return None
        before, after = _fields(change.old), _fields(change.new)
        for identity in _added(change):
            step = self._steps.get(identity.removesuffix(UNDO))
            for path in _changed(before, after):
                was, now, field = before.get(path), after.get(path), ".".join(path)
                if step is None or path not in step.after or was != step.after[path]:
                    given = "nothing" if step is None else step.after.get(path)
                    return f"{identity} set {field} from {was} to {now}; the step had set it to {given}"
                if now != step.before[path]:
                    then = step.before[path]
                    return f"{identity} set {field} to {now}, and before the step it was {then}"
        return None

    def _recorded(self, change: Seen) -> str | None:
        run = change.new or {}
        before = {step["id"]: step.get("state") for step in lookup(change.old, "status", "steps") or ()}
        for record in lookup(run, "status", "steps") or ():
            step = self._steps.get(f"{uid_of(run)}/{record['id']}")
            if record.get("state") != UNDONE or before.get(record["id"]) == UNDONE or step is None:
                continue
            if not step.is_there:
                continue
            by = _compensation(run, record["id"])
            left = sorted(".".join(path) for path in step.left)
            if by.get("restore") and left:
                return (
                    f"{record['id']} of {key_of(run).name} reads Undone, but {step.path} keeps its {left[0]}"
                )
            if step.made and (by.get("restore") or _deletes(by, step.path)):
                return f"{record['id']} of {key_of(run).name} reads Undone, but {step.path} is there"
        return None


def _added(change: Seen) -> Iterator[str]:
    """The identities of steps that this write put on the object: of one run there is only one."""
    known = identities_on(change.old or {})
    yield from (each for each in identities_on(change.new or {}) if each not in known)


def _compensation(run: Obj, step: str) -> Mapping[str, Any]:
    steps = lookup(run, "spec", "content", "steps") or ()
    return next((each.get("compensation") or {} for each in steps if each["id"] == step), {})


def _deletes(compensation: Mapping[str, Any], path: str) -> bool:
    name = lookup(dict(compensation), "delete", "name")
    return bool(name) and path.endswith(f"/{name}")


def _changed(before: Values, after: Values) -> list[Path]:
    return [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]


def _fields(obj: Obj) -> Values:
    """Without the status, and what comes with each write. A list is one value."""
    meta = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in STAMPS}
    annotations = meta.get("annotations") or {}
    meta["annotations"] = {name: value for name, value in annotations.items() if name != STEP_ANNOTATION}
    rest = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    return dict(_leaves((), {**rest, "metadata": meta}))


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if not isinstance(value, dict):
        yield path, value
        return
    for name, part in value.items():
        yield from _leaves((*path, name), part)
