"""Every observed read is declared: each kind that a process of ours lists, watches or gets is one that a part
of it declares. What a controller of such a process sees of that is limited by its snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fathom.explain.coupling.actors import actors
from fathom.explain.coupling.kind_names import kind_of
from fathom.model.accounts import CONTROLLERS, GATEWAY, NODE_USER, SCHEDULER
from fathom.sim.checkers.store_history import asked_of
from fathom.sim.world.invariants import Checker, Finding

if TYPE_CHECKING:
    from fathom.sim.world.network import Exchange
    from fathom.sim.world.world import World

PROCESSES = {SCHEDULER: "scheduler", CONTROLLERS: "controllers", GATEWAY: "gateway"}


def readable_kinds(process: str) -> frozenset[str]:
    """What its parts declare to read; and what they write, because a write of unknown outcome is settled by a
    read."""
    parts = [actor for actor in actors().values() if actor.process == process]
    reads = {read.kind for actor in parts for read in actor.reads}
    return frozenset(reads | {write.kind for actor in parts for write in actor.writes})


class ReadsAreDeclared(Checker):
    """A RequestListener."""

    name = "every observed read is declared"

    def __init__(self) -> None:
        self._allowed = {name: readable_kinds(name) for name in (*PROCESSES.values(), "agent")}
        self._undeclared: dict[str, None] = {}

    def begin(self, world: World) -> None:
        world.engine.listeners.append(self)

    def arrived(self, exchange: Exchange) -> None:
        account = exchange.process.user.name
        process = PROCESSES.get(account, "agent" if account.startswith(NODE_USER) else "")
        asked = asked_of(exchange.ask.target) if process and exchange.ask.method == "GET" else None
        if asked is not None and kind_of(asked.resource) not in self._allowed[process]:
            self._undeclared[f"{process} reads {asked.resource}, which no part of it declares"] = None

    def answered(self, exchange: Exchange, status: int, body: Any) -> None: ...

    def settled(self, world: World) -> Iterable[str | Finding]:
        return self._undeclared
