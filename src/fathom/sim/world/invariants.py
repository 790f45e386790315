"""Checkers: invariants that hold after every commit, and those that hold when the cluster is at rest.

A checker is a small object beside the system. It sees every commit before any process can act on it, keeps
the state that it needs to judge the next one, and returns what is wrong. A user adds one in five lines:

    class NoSecrets(Checker):
        name = "nobody writes secrets"

        def commit(self, change: Seen) -> Found:
            return f"{change.by} wrote {change.path}" if change.resource == "secrets" else None
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import msgspec

from fathom.api.resource_cache import REGISTRY
from fathom.model.body import decode_json
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS
from fathom.seams.seam import Ask
from fathom.store.protocol import Change

if TYPE_CHECKING:
    from fathom.sim.world.network import Exchange
    from fathom.sim.world.store_link import Committer
    from fathom.sim.world.world import World

PLACES_MAX = 1 << 14  # A cluster of a thousand nodes, with its pods.
RESERVATIONS = "reservations.fathom.dev"
LONG_S = 1.0  # Far more than a request takes where no fault slows it.
NOBODY_KNOWS = "somebody"  # Who made a commit of a real run whose audit log lacks the entry.


class Seen(msgspec.Struct, frozen=True):
    """One change of one object, as checkers see it."""

    resource: str  # 'pods', 'leases.coordination.k8s.io'
    key: Key
    revision: int
    old: Obj | None
    new: Obj | None
    at_s: float  # Since the scenario began.
    by: str  # The process that sent the request; an API server, for its own writes.
    incarnation: int  # Of that process.
    headers: tuple[tuple[str, str], ...] = ()  # Of the request: the fence it claims, the decision.
    late: bool = False  # Who decides now cannot count on the request: see `_is_late`.
    ask: Ask | None = None  # The request; None for a server's own write.
    sent_s: float | None = None  # When it was sent, since the scenario began; None where that is not known.

    @property
    def path(self) -> str:
        return "/".join(part for part in (self.resource, *self.key) if part)

    @property
    def delete_options(self) -> Obj:
        """The DeleteOptions of a DELETE; empty where it had none, or the request was no DELETE."""
        if self.ask is None or self.ask.method != "DELETE" or not self.ask.body:
            return {}
        body = self.ask.body
        return cast(Obj, decode_json(body) if isinstance(body, bytes) else body)


class Finding(msgspec.Struct, frozen=True):
    """What is wrong, and with which objects besides the one that changed."""

    message: str
    objects: tuple[str, ...]


Found = str | Finding | None


class Checker:
    """Override what you need. Methods return what is wrong, in words; None if nothing is."""

    name = ""
    resources: frozenset[str] | None = None  # Resources whose commits it sees; None: all.
    patience_s = 0.0  # How long after the world has come to rest `settled` may still find something wrong.

    def begin(self, world: World) -> None:
        """Called before the run starts."""

    def concerns(self, resource: str) -> bool:
        if type(self).commit is Checker.commit:
            return False
        return self.resources is None or resource in self.resources

    def commit(self, change: Seen) -> Found:
        """Called after every commit, for each object in it."""
        return None

    def settled(self, world: World) -> Iterable[str | Finding]:
        """Called when faults have stopped and nothing changes any more."""
        return ()

    async def rested(self, world: World) -> None:
        """Called after that, if nothing was found: it may try something, and `commit` judges what comes of
        it."""

    def ended(self, world: World) -> Iterable[str | Finding]:
        """Called after the scenario, outside of the world's time: it may make other worlds."""
        return ()


def seen(change: Change, by: Committer, at_s: float) -> Seen | None:
    if not change.key.startswith(REGISTRY):
        return None
    (resource, key), exchange = place_of(change.key), by.exchange
    previous, entry = change.previous, change.entry
    return Seen(
        resource=resource,
        key=key,
        revision=change.revision,
        old=None if previous is None else previous.body.obj,
        new=None if entry is None else entry.body.obj,
        at_s=at_s,
        by=by.process.name,
        incarnation=by.incarnation,
        headers=by.headers,
        late=exchange is not None and _is_late(exchange, at_s),
        ask=None if exchange is None else exchange.ask,
        sent_s=None if exchange is None else _sent_s(exchange),
    )


@lru_cache(maxsize=PLACES_MAX)
def place_of(key: str) -> tuple[str, Key]:
    """'/registry/pods/default/web-1' -> 'pods', default/web-1. Most commits are of keys seen before."""
    resource, *path = key.removeprefix(REGISTRY).split("/")
    return resource, Key(path[0], path[1]) if len(path) > 1 else Key("", path[0])


def _is_late(exchange: Exchange, at_s: float) -> bool:
    """The sender gave up on it. Or it has died since, and the request took long: who comes after it does not
    know of the request, and has seen no sign of it."""
    runs = exchange.process.alive and exchange.process.incarnation == exchange.incarnation
    if exchange.given_up or (exchange.over and runs):
        return True
    return not runs and at_s - _sent_s(exchange) > LONG_S


def _sent_s(exchange: Exchange) -> float:
    return (exchange.sent_ns - exchange.process.world.began_ns) / SECOND_NS


class OneBinding(Checker):
    """A bound pod keeps its node."""

    name = "one binding per pod"
    resources = frozenset({"pods"})

    def commit(self, change: Seen) -> Found:
        if change.old is None or change.new is None:
            return None
        was, now = lookup(change.old, "spec", "nodeName"), lookup(change.new, "spec", "nodeName")
        if was and now != was and uid_of(change.old) == uid_of(change.new):
            return f"{change.key.name} was bound to {was} and is now bound to {now}"
        return None


class OneReservation(Checker):
    """At most one active reservation per intent and generation."""

    name = "at most one active reservation per intent and generation"
    resources = frozenset({RESERVATIONS})

    def __init__(self) -> None:
        self._active: dict[tuple[str, ...], str] = {}  # Intent -> its active reservation.

    def commit(self, change: Seen) -> Found:
        if change.old is not None and _is_active(change.old):
            intent = intent_of(change.old)
            if self._active.get(intent) == change.key.name:
                del self._active[intent]
        if change.new is None or not _is_active(change.new):
            return None
        intent = intent_of(change.new)
        active = self._active.setdefault(intent, change.key.name)
        if active != change.key.name:
            message = f"{active} and {change.key.name} are both active for {' '.join(intent)}"
            namespace = f"{change.key.namespace}/" if change.key.namespace else ""
            return Finding(message, (f"{RESERVATIONS}/{namespace}{active}", change.path))
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

    def commit(self, change: Seen) -> Found:
        if change.old is None or change.new is None:
            return None
        was, now = metadata(change.old).get("generation", 0), metadata(change.new).get("generation", 0)
        if now >= was or uid_of(change.old) != uid_of(change.new):
            return None
        return f"{change.path} went from generation {was} to {now}"


# Kinds whose status is about another object, and names the generation of that object.
ABOUT_ANOTHER = frozenset({"workloadprogresses.fathom.dev"})


class ConditionsNameWhatTheySaw(Checker):
    """A status that claims a generation must have been written while that generation was current or past."""

    name = "conditions name the generation they observed"

    def commit(self, change: Seen) -> Found:
        if change.new is None or change.resource in ABOUT_ANOTHER:
            return None
        current = metadata(change.new).get("generation")
        if current is None:
            return None
        status = change.new.get("status") or {}
        claims = [status.get("observedGeneration"), *_condition_claims(status)]
        ahead = [claim for claim in claims if isinstance(claim, int) and claim > current]
        return f"{change.path} is at generation {current}, but its status names {ahead[0]}" if ahead else None


def _condition_claims(status: Obj) -> list[object]:
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return []
    return [condition.get("observedGeneration") for condition in conditions if isinstance(condition, dict)]


def standard() -> list[Checker]:
    """The checkers that hold in every world."""
    return [OneBinding(), OneReservation(), GenerationsOnlyGrow(), ConditionsNameWhatTheySaw()]
