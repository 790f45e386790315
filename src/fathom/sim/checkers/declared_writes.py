"""Every observed write is declared: each committed change of a field lies within what its writer declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fathom.explain.coupling.actors import actors, find_actor
from fathom.explain.coupling.kind_names import kind_of
from fathom.model.accounts import CONTROLLERS, GATEWAY, NODE_USER, SCHEDULER
from fathom.model.declared import Actor, Writes, covers
from fathom.model.fields import changed_paths
from fathom.model.well_known import ACTOR_HEADER
from fathom.sim.checkers.store_history import AskedWrite, asked_of
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.process import SimProcess
from fathom.sim.world.world import World

ANY_KIND = "*"
HOUSEKEEPING = "housekeeping/"  # Controllers in the API server: unlike users' controllers, they are all ours.
# Set by the server with any write, or with a deletion that its sender declares.
SERVER_SET = (
    "metadata.generation",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.resourceVersion",
)
BY_ACCOUNT = {SCHEDULER: "scheduler", CONTROLLERS: "controllers", GATEWAY: "gateway"}


class WritesAreDeclared(Checker):
    name = "every observed write is declared"

    def __init__(self) -> None:
        self._processes: Mapping[str, SimProcess] = {}
        self._actors: dict[str, Actor | None] = {}  # By the names in requests: looked up in the table once.
        # What the API server writes in the commits of others, and what admission adds to their objects.
        server = [actor for actor in actors().values() if actor.process == "api-server"]
        self._server = _by_kind(write for actor in server for write in actor.writes)
        plugins = [actor for actor in server if actor.mutates_requests]
        self._admission = _by_kind(write for actor in plugins for write in actor.writes)
        self._writes: dict[str, Mapping[str, list[Writes]]] = {
            actor.name: _by_kind(actor.writes) for actor in actors().values()
        }
        # Their commits also have what admission charges: ledgers, quotas.
        charged = [write for actor in plugins for write in actor.writes]
        self._housekeeping = {
            actor.name: _by_kind([*actor.writes, *charged])
            for actor in server
            if actor.name.startswith(HOUSEKEEPING)
        }

    def begin(self, world: World) -> None:
        self._processes = world.engine.processes

    def commit(self, change: Seen) -> Found:
        request = asked_of(change.ask.target) if change.ask is not None else None
        named = dict(change.headers).get(ACTOR_HEADER, "")
        declared: Mapping[str, list[Writes]]
        if named.startswith(HOUSEKEEPING):
            writer, declared = named, self._housekeeping.get(named, {})
        elif request is None or not _is_asked_for(request, change):
            declared = self._server
            writer = f"{change.by}, an API server"
        else:
            actor = self._actor(change)
            if actor is None:
                return None  # A user, or a user's own controller.
            writer, declared = actor.name, self._writes[actor.name]
        undeclared = self._undeclared(change, declared)
        return f"{writer} wrote {change.path}: {undeclared} is not declared" if undeclared else None

    def _actor(self, change: Seen) -> Actor | None:
        named = dict(change.headers).get(ACTOR_HEADER, "")
        if not named:
            account = self._processes[change.by].user.name
            named = BY_ACCOUNT.get(account, "agent" if account.startswith(NODE_USER) else "")
        if named not in self._actors:
            self._actors[named] = find_actor(named, actors()) if named else None
        return self._actors[named]

    def _undeclared(self, change: Seen, declared: Mapping[str, list[Writes]]) -> str:
        kind = kind_of(change.resource)
        writes = [*declared.get(kind, ()), *declared.get(ANY_KIND, ())]
        if change.old is None:
            return "" if any(write.creates for write in writes) else "its creation"
        if change.new is None:
            # The last finalizer may go with a patch, and the object with it.
            last = any(write.deletes or covers(write.fields, "metadata.finalizers") for write in writes)
            return "" if last else "its deletion"
        fields = [field for write in writes for field in write.fields]
        fields += [field for write in self._admission.get(kind, ()) for field in write.fields]
        if any(write.deletes for write in writes):
            fields.append("metadata.finalizers")  # Deletion policies are finalizers.
        paths = changed_paths(change.old, change.new)
        return next((path for path in paths if path not in SERVER_SET and not covers(fields, path)), "")


def _is_asked_for(request: AskedWrite, change: Seen) -> bool:
    """Whether the request names this object. Other objects in its commit are the server's doing."""
    if request.resource != change.resource or request.subresource in {"binding", "eviction"}:
        return False
    return request.name in {"", change.key.name}


def _by_kind(writes: Iterable[Writes]) -> dict[str, list[Writes]]:
    by_kind: dict[str, list[Writes]] = {}
    for write in writes:
        by_kind.setdefault(write.kind, []).append(write)
    return by_kind
