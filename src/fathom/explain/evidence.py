"""Evidence: everything that an explanation is made from. `ask/` collects it; the functions here only read it.

A question takes two pure steps around the collecting: from the objects follows which records are wanted
(`RecordQuery`), and from objects and records together follows the answer. What could not be collected is a
`Gap`: the answer says "no data" there, and never guesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

import msgspec

from fathom.model.audit import AuditEntry
from fathom.model.objects import Key, Obj, key_of, metadata
from fathom.model.record_query import ObjectRef, ProcessState, Recorded, RecordQuery

# The types of records are the model's, because journals answer with them; answers import them from here.
__all__ = [
    "Evidence",
    "Gap",
    "HeldObjects",
    "ObjectRef",
    "Objects",
    "ProcessState",
    "RecordQuery",
    "Recorded",
]


class Objects(Protocol):
    """The objects of the cluster, as they are or as they were at one revision."""

    def get(self, resource: str, key: Key) -> Obj | None: ...

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        """Sorted by key. The objects are shared and must not be changed."""
        ...

    def revision(self, resource: str) -> int:
        """The revision that the objects of this kind are as of."""
        ...

    def last_change(self, resource: str) -> int:
        """The revision of the kind's own last change: a deletion counts where the source remembers it."""
        ...


@runtime_checkable
class SearchableObjects(Protocol):
    """Objects that can be searched without decoding all of them."""

    def mentioning(self, resource: str, namespace: str, text: str) -> list[Obj]: ...


def mentioning(objects: Objects, resource: str, namespace: str, text: str) -> list[Obj]:
    """At least the objects of a namespace that have the text as a value somewhere."""
    if isinstance(objects, SearchableObjects):
        return objects.mentioning(resource, namespace, text)
    return objects.list(resource, namespace)


class Gap(msgspec.Struct, frozen=True):
    """A source that did not answer: what it would have told is unknown."""

    source: str  # 'journal of deciders', 'audit log'
    why: str


class CacheObservation(msgspec.Struct, frozen=True, kw_only=True):
    """When a process's cache of a kind received a revision: as the process noted, or as on its tape."""

    process: str
    kind: str  # 'TenantQuota'
    revision: int
    time_ns: int
    part: str = ""  # 'scheduler', 'controllers': each part has caches of its own. '': any part.


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    subject: ObjectRef
    objects: Objects
    decisions: tuple[Recorded, ...] = ()  # Oldest first.
    audit: tuple[AuditEntry, ...] = ()  # Writes of the objects asked about, the first answered first.
    processes: tuple[ProcessState, ...] = ()
    gaps: tuple[Gap, ...] = ()
    now_ns: int = 0
    may_read_nodes: bool = True  # Whether the user may see names of nodes; else only counts.
    readable: frozenset[str] | None = None  # Namespaces whose objects the user may see; None: all of them.
    observations: tuple[CacheObservation, ...] = ()  # Oldest first.
    attached: str = ""  # URL of the Kubernetes that the objects are copied from; '': the cluster is fathom's.
    copied: frozenset[str] | None = None  # The kinds of which the objects are known; None: all.

    @property
    def agent(self) -> str:
        """What runs the pods of a node, as its operators call it."""
        return "kubelet" if self.attached else "agent"

    def knows(self, resource: str) -> bool:
        """Whether an object of this kind that is not there does not exist."""
        return self.copied is None or resource in self.copied


def committed_writes(entries: Iterable[AuditEntry], about: ObjectRef) -> list[AuditEntry]:
    """The writes of one object, in the order of their commits; without its UID, of all that had this name.
    The log has writes in the order of their answers: the first to be committed may be answered last."""
    place = (about.resource, about.namespace, about.name)
    writes = [
        entry
        for entry in entries
        if (entry.resource, entry.namespace, entry.name) == place
        and entry.wrote
        and (not about.uid or entry.uid in {"", about.uid})
    ]
    return sorted(writes, key=lambda entry: entry.revision)


class HeldObjects:
    """Objects in memory."""

    def __init__(self, objects: Mapping[str, Iterable[Obj]], *, revision: int = 0) -> None:
        self._objects = {
            resource: {key_of(obj): obj for obj in sorted(listed, key=key_of)}
            for resource, listed in objects.items()
        }
        self._revision = revision

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._objects)

    def get(self, resource: str, key: Key) -> Obj | None:
        return self._objects.get(resource, {}).get(key)

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        held = self._objects.get(resource, {}).values()
        return [obj for obj in held if namespace is None or metadata(obj).get("namespace", "") == namespace]

    def revision(self, resource: str) -> int:
        return self._revision

    def last_change(self, resource: str) -> int:
        return max(map(revision_of, self._objects.get(resource, {}).values()), default=0)


def revision_of(obj: Obj) -> int:
    text = str(metadata(obj).get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
