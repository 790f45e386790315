"""What a run depended on: the writes that processes under test sent, and the watch events that they got.

Two writes of one site differ only in the names of objects, and in which of several replicas (manager-1,
manager-2) sent them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fathom.model.body import decode_json
from fathom.model.times import SECOND_NS
from fathom.seams.seam import Input
from fathom.sim.report.chronicle import NOBODY, Chronicle, CommitSeen, LogLine, RequestSent, resource_of
from fathom.sim.report.evidence import resource_of as changed_resource_of
from fathom.sim.world.active_faults import FOREVER_NS, shape
from fathom.sim.world.network import WRITES

Site = tuple[str, str, str]


class WriteSite(msgspec.Struct, frozen=True):
    """A write that a process under test sent."""

    process: str
    server: str
    at_s: float
    method: str
    path: str
    resource: str
    changed: tuple[str, ...] = ()  # The kinds that it changed.
    about: str = ""  # The fields of a patch.

    @property
    def site(self) -> Site:
        return (role_of(self.process), self.method, f"{shape(self.path)} {self.about}".rstrip())


class WatchSite(msgspec.Struct, frozen=True):
    """A watch chunk that a process under test got."""

    process: str
    server: str
    at_s: float
    resource: str

    @property
    def site(self) -> Site:
        return (role_of(self.process), "hears of", self.resource)


Support = WriteSite | WatchSite


def role_of(process: str) -> str:
    """'manager-2' -> 'manager-'"""
    return process.rstrip("0123456789")


def supports_of(
    chronicle: Chronicle, began_ns: int, processes: frozenset[str], *, until_ns: int = FOREVER_NS
) -> list[Support]:
    servers: dict[str, str] = {}
    supports: list[Support] = []
    changed = _changed(chronicle)
    for event in chronicle.events:
        if event.process not in processes or event.at_ns >= until_ns:
            continue
        at_s = (event.at_ns - began_ns) / SECOND_NS
        if isinstance(event, RequestSent):
            servers[event.process] = event.server
            if event.method in WRITES:
                supports.append(_write(event, at_s, changed.get(event.id, ())))
        elif isinstance(event, LogLine) and _tells_of_a_change(chronicle, event):
            supports.append(WatchSite(event.process, servers[event.process], at_s, event.resource))
    return supports


def _changed(chronicle: Chronicle) -> dict[int, tuple[str, ...]]:
    """Request -> the kinds that it changed."""
    return {
        event.cause: tuple(dict.fromkeys(map(changed_resource_of, event.changes)))
        for event in chronicle.events
        if isinstance(event, CommitSeen)
    }


def _tells_of_a_change(chronicle: Chronicle, message: LogLine) -> bool:
    """The chunk has a change of the resource, and not only a bookmark."""
    if message.kind is not Input.CHUNK or message.cause == NOBODY:
        return False
    commit = chronicle.events[message.cause]
    return isinstance(commit, CommitSeen) and message.resource in map(changed_resource_of, commit.changes)


def _write(event: RequestSent, at_s: float, changed: tuple[str, ...]) -> WriteSite:
    return WriteSite(
        process=event.process,
        server=event.server,
        at_s=at_s,
        method=event.method,
        path=event.target.partition("?")[0],
        resource=resource_of(event.target),
        changed=changed,
        about=fields_of(event.body) if event.method == "PATCH" else "",
    )


def fields_of(body: object) -> str:
    """The fields of a patch, to the third level: 'metadata.finalizers', 'status.phase,status.podIP'."""
    if isinstance(body, bytes):
        try:
            body = decode_json(body)
        except msgspec.DecodeError:
            return ""
    return ",".join(sorted(_paths(body, 3))) if isinstance(body, dict) else ""


def _paths(obj: object, levels: int) -> Iterator[str]:
    for name, value in obj.items() if isinstance(obj, dict) else ():
        below = list(_paths(value, levels - 1)) if levels > 1 else []
        yield from (f"{name}.{path}" for path in below) if below else (str(name),)


def hearers(supports: Sequence[Support]) -> dict[str, frozenset[str]]:
    """Kind -> the roles that watch it."""
    roles_of: dict[str, set[str]] = {}
    for support in supports:
        if isinstance(support, WatchSite):
            roles_of.setdefault(support.resource, set()).add(role_of(support.process))
    return {kind: frozenset(roles) for kind, roles in roles_of.items()}
