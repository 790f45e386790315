"""Facts from a chronicle: owners of objects, revisions that processes had seen, answered writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathom.api.resource_cache import REGISTRY
from fathom.control.ownership import controller_of
from fathom.model.objects import Obj, uid_of, with_metadata
from fathom.seams.seam import Input
from fathom.sim.report.chronicle import NOBODY, Chronicle, CommitSeen, InputReceived, LogLine
from fathom.store.protocol import Change

# Of a larger family, the timeline shows only the owner and the object itself.
FAMILY_MAX = 12


def path_of(change: Change) -> str:
    return change.key.removeprefix(REGISTRY)


def resource_of(change: Change) -> str:
    return path_of(change).partition("/")[0]


def family(chronicle: Chronicle, objects: Sequence[str]) -> frozenset[str]:
    """If a violation names only one object, the timeline shows its owner and its siblings as well."""
    if len(objects) != 1:
        return frozenset(objects)
    owners, paths = _owners_and_paths(chronicle)
    owner = owners.get(objects[0], "")
    if not owner:
        return frozenset(objects)
    resource = objects[0].partition("/")[0]
    siblings = {
        path
        for path, owner_uid in owners.items()
        if owner_uid == owner and path.partition("/")[0] == resource
    }
    near = siblings if len(siblings) <= FAMILY_MAX else set(objects)
    return frozenset(near | {paths[owner]} if owner in paths else near)


def _owners_and_paths(chronicle: Chronicle) -> tuple[dict[str, str], dict[str, str]]:
    """path -> the UID of its controlling owner; UID -> path."""
    owners: dict[str, str] = {}
    paths: dict[str, str] = {}
    for event in chronicle.events:
        for change in event.changes if isinstance(event, CommitSeen) else ():
            obj = change.entry.body.obj if change.entry is not None else {}
            owner = controller_of(obj)
            paths[uid_of(obj) if obj else ""] = path_of(change)
            if owner is not None:
                owners[path_of(change)] = str(owner["uid"])
    return owners, paths


def hearing(chronicle: Chronicle) -> dict[tuple[str, int, str], list[tuple[int, int]]]:
    """(process, incarnation, resource) -> (event, the revision that it had seen by then), in order."""
    revisions_seen: dict[tuple[str, int, str], list[tuple[int, int]]] = {}
    for event in chronicle.events:
        if not isinstance(event, InputReceived) or event.cause == NOBODY:
            continue
        message = chronicle.events[event.cause]
        if isinstance(message, LogLine) and message.covers:
            revisions = revisions_seen.setdefault((event.process, event.incarnation, message.resource), [])
            revisions.append((event.id, max(message.revision, revisions[-1][1] if revisions else 0)))
    return revisions_seen


def answers(chronicle: Chronicle) -> dict[int, tuple[str, int, int]]:
    """Commit -> (process, incarnation, event): which process got the answer to its write, and when."""
    answered: dict[int, tuple[str, int, int]] = {}
    for event in chronicle.events:
        if isinstance(event, InputReceived) and event.cause != NOBODY:
            message = chronicle.events[event.cause]
            if isinstance(message, LogLine) and message.kind is Input.REPLY and message.cause != NOBODY:
                answered.setdefault(message.cause, (event.process, event.incarnation, event.id))
    return answered


def single_reads(chronicle: Chronicle) -> dict[tuple[str, int, str, int], int]:
    """(process, incarnation, resource, revision) -> the event in which it got one object of that revision, as
    the answer to a read or to a lost race."""
    reads: dict[tuple[str, int, str, int], int] = {}
    for event in chronicle.events:
        if isinstance(event, InputReceived) and event.cause != NOBODY:
            message = chronicle.events[event.cause]
            if isinstance(message, LogLine) and message.revision and not message.covers:
                key = (event.process, event.incarnation, message.resource, message.revision)
                reads.setdefault(key, event.id)
    return reads


def objects_at_end(chronicle: Chronicle) -> Iterator[tuple[str, Obj]]:
    """The objects that the last commits left, with their resources."""
    last: dict[str, Change] = {}
    for event in chronicle.events:
        for change in event.changes if isinstance(event, CommitSeen) else ():
            if change.key.startswith(REGISTRY):
                last[change.key] = change
    for change in last.values():
        if change.entry is not None:
            obj = change.entry.body.obj
            yield resource_of(change), with_metadata(obj, resourceVersion=str(change.revision))
