"""Of two overrides that contradict each other at most one is in force, at every commit.

Computes by itself which changes contradict, and which overrides are in force: not with the code under test.
"""

from __future__ import annotations

from fathom.model.objects import Key, Obj, is_deleting, lookup
from fathom.model.times import SECOND_NS, moment_ns
from fathom.sim.checkers.override_effects import LATE_S
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.world import World

OVERRIDES = "scheduleroverrides.fathom.dev"
# Fields of which two different values cannot both hold; those of one row are one change.
EXCLUSIVE = (("allowReservedCapacityClass", "reservedReplicas"), ("trafficWeights",), ("breakGlassRole",))


class NoContradictionInForce(Checker):
    name = "no two overrides in force contradict each other"
    resources = frozenset({OVERRIDES})

    def __init__(self) -> None:
        self._overrides: dict[Key, Obj] = {}

    def begin(self, world: World) -> None:
        self._engine = world.engine

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            self._overrides.pop(change.key, None)
            return None
        self._overrides[change.key] = change.new
        if not self._is_in_force(change.new):
            return None
        for key, other in self._overrides.items():
            if key != change.key and _contradict(change.new, other) and self._is_in_force(other):
                message = f"{change.path} and {'/'.join(key)} contradict each other, and both are in force"
                return Finding(message, (f"{OVERRIDES}/{'/'.join(key)}",))
        return None

    def _is_in_force(self, override: Obj) -> bool:
        """Surely: not while a clock may see it otherwise."""
        status = override.get("status") or {}
        approval = status.get("approval") or {}
        ends_ns = moment_ns(status.get("expiresAt"))
        if (
            is_deleting(override)
            or ends_ns is None
            or (approval.get("required") and not approval.get("approved"))
        ):
            return False
        now_ns = self._engine.epoch_ns + self._engine.now_ns
        return now_ns < ends_ns - LATE_S * SECOND_NS


def _contradict(override: Obj, other: Obj) -> bool:
    """In one namespace, about one target, everywhere or in one place."""
    places = {str(lookup(each, "spec", "scope")) for each in (override, other)}
    if _about(override) != _about(other) or not (len(places) == 1 or "cluster" in places):
        return False
    mine, theirs = (lookup(each, "spec", "changes") or {} for each in (override, other))
    return any(
        mine.get(fields[0]) and theirs.get(fields[0]) and _values(mine, fields) != _values(theirs, fields)
        for fields in EXCLUSIVE
    )


def _about(override: Obj) -> tuple[object, object]:
    return lookup(override, "metadata", "namespace"), lookup(override, "spec", "target")


def _values(changes: Obj, fields: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(changes.get(field) for field in fields)
