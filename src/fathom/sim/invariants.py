"""What must always be true, checked after every commit, and what must be true when all is quiet.

A checker is a small object beside the system. It sees every commit before anybody can act on it, keeps what
it needs to judge the next one, and says what is wrong. A user adds one in five lines:

    class OneLeader(Checker):
        name = "one leader"
        def commit(self, change: Seen) -> str | None:
            if change.resource == "leases..." and ...:
                return "two leaders"
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.store.protocol import Change

if TYPE_CHECKING:
    from fathom.sim.engine import Engine

REGISTRY = "/registry/"


class Seen(msgspec.Struct, frozen=True):
    """One change of one object, as checkers see it."""

    resource: str
    key: Key
    revision: int
    old: Obj | None
    new: Obj | None

    @property
    def path(self) -> str:
        return "/".join(part for part in (self.resource, *self.key) if part)


class Checker:
    """Override what you need. Answers are what is wrong, in words; None is well."""

    name = ""

    def commit(self, change: Seen) -> str | None:
        """After every commit, for each object in it."""
        return None

    def settled(self, world: Engine) -> Iterable[str]:
        """When faults have stopped and nothing moves any more."""
        return ()


def seen(change: Change) -> Seen | None:
    if not change.key.startswith(REGISTRY):
        return None
    resource, *path = change.key.removeprefix(REGISTRY).split("/")
    key = Key(path[0], path[1]) if len(path) > 1 else Key("", path[0])
    old = change.previous.body.obj if change.previous else None
    new = change.entry.body.obj if change.entry else None
    return Seen(resource, key, change.revision, old, new)


class OneBinding(Checker):
    """A pod that has a node keeps it."""

    name = "one binding per pod"

    def commit(self, change: Seen) -> str | None:
        if change.resource != "pods" or change.old is None or change.new is None:
            return None
        was, now = lookup(change.old, "spec", "nodeName"), lookup(change.new, "spec", "nodeName")
        if was and now != was and uid_of(change.old) == uid_of(change.new):
            return f"{change.key.name} was bound to {was} and is now bound to {now}"
        return None


class OneReservation(Checker):
    """At most one active reservation per intent and generation."""

    name = "one active reservation per intent"

    def __init__(self) -> None:
        self._active: dict[tuple[str, ...], str] = {}  # Intent -> the reservation that has it.

    def commit(self, change: Seen) -> str | None:
        if change.resource != "reservations.fathom.dev":
            return None
        if change.old is not None and _is_active(change.old):
            intent = intent_of(change.old)
            if self._active.get(intent) == change.key.name:
                del self._active[intent]
        if change.new is None or not _is_active(change.new):
            return None
        intent = intent_of(change.new)
        other = self._active.setdefault(intent, change.key.name)
        if other != change.key.name:
            return f"{other} and {change.key.name} are both active for {' '.join(intent)}"
        return None


def intent_of(reservation: Obj) -> tuple[str, ...]:
    spec = reservation.get("spec") or {}
    workload = spec.get("workload") or {}
    return (
        str(workload.get("name", "")),
        str(workload.get("uid", "")),
        f"slot {spec.get('slot', 0)}",
        f"generation {workload.get('generation', 0)}",
        str(spec.get("intent", "")),
    )


def _is_active(reservation: Obj) -> bool:
    return lookup(reservation, "status", "phase") not in {"Released", "Expired"}


class GenerationsOnlyGrow(Checker):
    name = "generations only grow"

    def commit(self, change: Seen) -> str | None:
        if change.old is None or change.new is None or uid_of(change.old) != uid_of(change.new):
            return None
        was, now = metadata(change.old).get("generation", 0), metadata(change.new).get("generation", 0)
        return f"{change.path} went from generation {was} to {now}" if now < was else None


class ConditionsNameWhatTheySaw(Checker):
    """A status that claims a generation must have been written while that generation was current or past."""

    name = "conditions name the generation they observed"

    def commit(self, change: Seen) -> str | None:
        if change.new is None:
            return None
        current = metadata(change.new).get("generation")
        if current is None:
            return None
        status = change.new.get("status") or {}
        claims = [status.get("observedGeneration"), *_condition_claims(status)]
        ahead = [claim for claim in claims if isinstance(claim, int) and claim > current]
        return f"{change.path} at generation {current} claims {ahead[0]}" if ahead else None


def _condition_claims(status: Obj) -> list[object]:
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return []
    return [one.get("observedGeneration") for one in conditions if isinstance(one, dict)]


def standard() -> list[Checker]:
    """Those that hold in every world."""
    return [OneBinding(), OneReservation(), GenerationsOnlyGrow(), ConditionsNameWhatTheySaw()]
