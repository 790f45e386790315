"""Asks the checkers for any operator, those of the simulator, about a live cluster."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fathom.model.objects import Obj, metadata
from fathom.sim.checkers.at_rest import AtRest, Objects
from fathom.sim.checkers.operators import (
    NoHotLoop,
    NothingIsMadeTwice,
    Role,
    WhatIsWantedIsThere,
    for_any_operator,
)
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.violation import Violation

# Objects that change although nothing happens, and that no owner wants.
RESTLESS = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io"})

# Of the patience, for what no checker has patience with: a program may still be about to correct it.
SURE_SHARE = 1 / 3


class StillWrong(msgspec.Struct, frozen=True):
    violation: Violation
    patient: bool  # Its checker has patience.

    def after_s(self, patience_s: float) -> float:
        return patience_s if self.patient else patience_s * SURE_SHARE


class Judge:
    def __init__(self, calm: Mapping[Role, int] | None) -> None:
        self._checkers: list[Checker] = for_any_operator(calm)
        self._twice = next(checker for checker in self._checkers if isinstance(checker, NothingIsMadeTwice))
        self.hot_loop = next(checker for checker in self._checkers if isinstance(checker, NoHotLoop))
        self._missing = WhatIsWantedIsThere(calm or {})
        self._missing.unowned = self._twice.unowned
        self._checkers.append(self._missing)
        self._paths: dict[str, str] = {}  # UID -> path, of everything that was written.

    @property
    def counted(self) -> Mapping[Role, int]:
        return self._twice.counted

    def is_restless(self, resource: str) -> bool:
        return resource in RESTLESS

    def commit(self, seen: Seen, *, by_program: bool, at_s: float) -> Violation | None:
        obj = seen.new or seen.old or {}
        self._paths.setdefault(str(metadata(obj).get("uid")), seen.path)
        if not self.is_restless(seen.resource):
            self.hot_loop.forget()  # There is a reason to do something.
            if by_program and seen.old is None and not metadata(obj).get("ownerReferences"):
                self._twice.unowned.add(seen.path)
        for checker in self._checkers:
            if checker.concerns(seen.resource) and (finding := checker.commit(seen)) is not None:
                return _violation(checker, finding, at_s, (seen.path,))
        return None

    def at_rest(self, objects: Objects, now_s: float, *, made: bool) -> list[StillWrong]:
        """`made`: what the program makes should be there now."""
        findings = []
        for checker in self._checkers:
            if not isinstance(checker, AtRest) or (checker in (self._twice, self._missing) and not made):
                continue
            for finding in checker.at_rest(objects, now_s):
                violation = _violation(checker, finding, now_s, ())
                findings.append(StillWrong(violation, patient=checker.patience_s > 0))
        return findings

    def owners_of(self, obj: Obj) -> list[str]:
        owners = metadata(obj).get("ownerReferences") or ()
        return [path for owner in owners if (path := self._paths.get(str(owner["uid"]))) is not None]


def _violation(checker: Checker, finding: Found, at_s: float, objects: tuple[str, ...]) -> Violation:
    if isinstance(finding, Finding):
        return Violation(checker.name, finding.message, at_s, finding.objects)
    return Violation(checker.name, str(finding), at_s, objects)
