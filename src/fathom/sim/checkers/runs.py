"""Runs of runbooks, judged by their records and by what they do to plain objects: a step is about one object
and not about another of its name, one client at a time carries a run out, a sign of regression stops it, and
it succeeds only when its postconditions were seen to hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fathom.model.objects import Key, Obj, is_deleting, lookup, uid_of
from fathom.model.times import SECOND_NS, duration_ns, moment_ns
from fathom.sim.checkers.undone_steps import AGENT, RUNS, UndoingIsExact
from fathom.sim.world.invariants import Checker, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World

CONFIG_MAPS = "configmaps"
WORD = re.compile(r"(\w+)\.data\.(\w+) == '(\w+)'").fullmatch
# How long a look may be ago when what follows from it is written; each fault may cost as long again.
LOOK_S = 8.0


class StepsNameTheirObjects(Checker):
    """A step deletes or changes the object that it found when it was first tried, or that the run has made;
    never another one that has the name since."""

    name = "a step of a run is about one object, not about its namesake"

    def __init__(self) -> None:
        self._runs: dict[str, str] = {}  # Name -> UID.
        # UID of the run, and step -> UID of the object that it is about.
        self._meant: dict[tuple[str, str], str] = {}
        self._made: dict[str, tuple[str, str]] = {}  # UID -> the run and the step that have made it.

    def commit(self, change: Seen) -> Found:
        if change.resource == RUNS:
            self._note(change.key.name, change.new)
            return None
        match = AGENT(dict(change.headers).get("user-agent", ""))
        if match is None:
            return None
        run, step, undo = match.groups()
        if change.old is None:
            self._made[uid_of(change.new or {})] = (run, step)
            return None
        uid, meant = uid_of(change.old), self._meant.get((self._runs.get(run, ""), step))
        if uid == meant or (meant is None and not undo) or self._made.get(uid) == (run, step):
            return None
        what = "deleted" if change.new is None or is_deleting(change.new) else "changed"
        return f"step {step} of {run} {what} {change.path} with UID {uid}, but is about UID {meant or 'none'}"

    def _note(self, name: str, run: Obj | None) -> None:
        self._runs[name] = uid = uid_of(run or {})
        for step in lookup(run, "status", "steps") or ():
            about = lookup(step, "object", "uid")
            if about and step.get("state") in ("Acting", "Acted"):
                self._meant.setdefault((uid, step["id"]), about)


class OneClientAtATime(Checker):
    """Who takes a run over raises its epoch: all writes of one epoch are of one client."""

    name = "a run's record is written by the client that has taken it"
    resources = frozenset({RUNS})

    def __init__(self) -> None:
        self._clients: dict[tuple[str, int], tuple[str, int]] = {}  # UID and epoch -> process and life.

    def commit(self, change: Seen) -> Found:
        before, after = (lookup(obj, "status", "holder") or {} for obj in (change.old, change.new))
        if change.new is None or before == after:
            return None
        epoch, me = int(after.get("epoch") or 0), (change.by, change.incarnation)
        client = self._clients.setdefault((uid_of(change.new), epoch), me)
        if client == me:
            return None
        return f"{change.by} wrote the record of {change.key.name} in epoch {epoch}, which {client[0]} has"


class Condition:
    """`NAME.data.KEY == 'WORD'` of a ConfigMap that is an input, over time: since when it is true without a
    break, and until when it was."""

    def __init__(self, content: Obj, expression: str) -> None:
        match = WORD(expression)
        inputs = {each["name"]: each for each in content.get("inputs") or ()}
        given = inputs.get(match.group(1)) if match is not None else None
        self.is_known = given is not None and lookup(given, "object", "kind") == "ConfigMap"
        self._words = match.groups()[1:] if match is not None else ("", "")
        self._given = given or {}
        self._since_s: float | None = None
        self._expires_s = self._until_s = float("-inf")

    def look(self, key: Key, obj: Obj | None, now_s: float, wall_ns: int) -> None:
        if key.name != lookup(self._given, "object", "name"):
            return
        if self._since_s is not None:
            self._until_s = min(now_s, self._expires_s)
        age_s = self._age_s(obj, wall_ns)
        field, word = self._words
        left_s = (duration_ns(self._given.get("maxAge") or "") or 0) / SECOND_NS - age_s
        is_true = lookup(obj, "data", field) == word and left_s >= 0
        broken = self._since_s is None or self._until_s < now_s
        self._since_s = None if not is_true else now_s if broken else self._since_s
        self._expires_s = now_s + left_s if self._given.get("maxAge") else float("inf")

    def _age_s(self, obj: Obj | None, wall_ns: int) -> float:
        """0 where no age is too great."""
        if not self._given.get("maxAge"):
            return 0.0
        at_ns = moment_ns(lookup(obj, *str(self._given.get("timePath")).split(".")))
        return float("inf") if at_ns is None else (wall_ns - at_ns) / SECOND_NS

    def true_for_s(self, now_s: float) -> float:
        """0 where it is not true now."""
        return 0.0 if self._since_s is None or now_s > self._expires_s else now_s - self._since_s

    def not_true_for_s(self, now_s: float) -> float:
        return now_s - (self._until_s if self._since_s is None else min(now_s, self._expires_s))


class RunsHeedTheirConditions(Checker):
    """A stopIf of the run, of a step that was done or of the present one is true, and the run does not go on;
    a run succeeds only when each of its postconditions was true at its last look. What is Unknown is not
    true. Of conditions on one word of a ConfigMap."""

    name = "a run does as its conditions say"
    resources = frozenset({RUNS, CONFIG_MAPS})

    def __init__(self) -> None:
        self._conditions: dict[tuple[str, str], Condition] = {}  # By the UID of the run, and the expression.
        self._maps: dict[Key, Obj | None] = {}
        self._world: World | None = None

    def begin(self, world: World) -> None:
        self._world = world

    def commit(self, change: Seen) -> Found:
        assert self._world is not None
        wall_ns = self._world.engine.epoch_ns + self._world.engine.now_ns
        if change.resource == CONFIG_MAPS:
            self._maps[change.key] = change.new
            for condition in self._conditions.values():
                condition.look(change.key, change.new, change.at_s, wall_ns)
            return None
        if change.new is None:
            return None
        allowed_s = LOOK_S * (1 + sum(self._world.engine.faults.fired.values()))
        for listed in self._listed(change.new):
            if (uid_of(change.new), listed["expression"]) not in self._conditions:
                added = Condition(lookup(change.new, "spec", "content") or {}, listed["expression"])
                self._conditions[uid_of(change.new), listed["expression"]] = added
                for key, obj in self._maps.items():
                    added.look(key, obj, change.at_s, wall_ns)
        return self._succeeded(change, allowed_s) or self._went_on(change, allowed_s)

    def _listed(self, run: Obj) -> Iterator[Obj]:
        content = lookup(run, "spec", "content") or {}
        yield from content.get("postconditions") or ()
        yield from content.get("stopIf") or ()
        for step in content.get("steps") or ():
            yield from step.get("stopIf") or ()

    def _condition(self, run: Obj, listed: Obj) -> Condition | None:
        condition = self._conditions[uid_of(run), listed["expression"]]
        return condition if condition.is_known else None

    def _succeeded(self, change: Seen, allowed_s: float) -> str | None:
        run = change.new or {}
        if "Succeeded" not in (phase := _phase(run)) or phase == _phase(change.old):
            return None
        for listed in lookup(run, "spec", "content", "postconditions") or ():
            condition = self._condition(run, listed)
            if condition is not None and (late_s := condition.not_true_for_s(change.at_s)) > allowed_s:
                return f"{change.key.name} succeeded, but {listed['name']} was not true for {late_s:.0f} s"
        return None

    def _went_on(self, change: Seen, allowed_s: float) -> str | None:
        run = change.new or {}
        before, after = _states(change.old), _states(run)
        gone_on = [
            step
            for step, state in after.items()
            if state != before.get(step) and state in ("Acting", "Acted", "Done")
        ]
        if not gone_on or _phase(run) != "Running":
            return None
        content = lookup(run, "spec", "content") or {}
        begun = {step for step, state in after.items() if state in ("Acting", "Acted", "Done")}
        own = [
            each
            for step in content.get("steps") or ()
            if step["id"] in begun
            for each in step.get("stopIf") or ()
        ]
        for listed in (*(content.get("stopIf") or ()), *own):
            condition = self._condition(run, listed)
            if condition is not None and (long_s := condition.true_for_s(change.at_s)) > allowed_s:
                sign = f"{listed['name']} of stopIf was true for {long_s:.0f} s"
                return f"step {gone_on[0]} went on, though {sign}"
        return None


def _phase(run: Obj | None) -> str:
    return str(lookup(run, "status", "phase") or "")


def _states(run: Obj | None) -> dict[str, str]:
    return {step["id"]: str(step.get("state")) for step in lookup(run, "status", "steps") or ()}


def of_runs() -> list[Checker]:
    return [StepsNameTheirObjects(), OneClientAtATime(), RunsHeedTheirConditions(), UndoingIsExact()]
