"""Queries for recorded decisions, and their answers: types that journals, endpoints and views share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from fathom.model.decision import Decision, KeptDecision, SeenVersions, Subject
from fathom.model.objects import Key


class ObjectRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """One object, by name, and by UID where it is known: an object of the same name may have been deleted."""

    resource: str  # 'pods', 'deployments.apps'
    namespace: str
    name: str
    uid: str = ""

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    def is_subject(self, subject: Subject) -> bool:
        """Whether the record is about this object. A record without a UID is about any object of the name."""
        same = (subject.resource, subject.namespace, subject.name) == (
            self.resource,
            self.namespace,
            self.name,
        )
        return same and (not self.uid or subject.uid in {"", self.uid})


class RecordQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The records that a question needs: those about one of the objects, those with one of the ids, and those
    that wrote one of the revisions. A query without any of the three is for all decisions."""

    objects: tuple[ObjectRef, ...] = ()
    decisions: tuple[str, ...] = ()
    since_ns: int = 0  # The times do not restrict `decisions` and `revisions`: these are exact already.
    until_ns: int = 0  # 0: no end.
    newest: int = 200  # Of each object, at most so many; of a query for all decisions, in total.
    revisions: tuple[int, ...] = ()
    namespace: str | None = None  # Of a query for all decisions: only those about objects of this namespace.
    writes_of: tuple[
        ObjectRef, ...
    ] = ()  # Of these objects only the writes: the audit log is asked, nobody else.
    reasons_of: int = 1  # Of each object, so many of the newest decisions come with each node's reason.

    @property
    def is_for_all(self) -> bool:
        return not (self.objects or self.decisions or self.revisions)

    def in_time(self, decision: Decision) -> bool:
        return self.since_ns <= decision.time_ns and (not self.until_ns or decision.time_ns <= self.until_ns)


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """A decision on record, and the process that has it."""

    process: str
    kept: KeptDecision
    nodes: Mapping[str, str] | None = None  # Node -> why it was rejected; '' where the pod fits.
    rules: Mapping[str, str] = {}  # Each of these reasons -> its rule.


class ProcessState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a process of the control plane, as it describes itself when asked."""

    process: str  # 'deciders'
    parts: tuple[str, ...] = ()  # 'scheduler', 'controllers'
    answered: bool = True
    leads: bool | None = None  # None: it takes no part in an election.
    lease: str = ""  # 'fathom-system/scheduler'
    caches: Mapping[str, SeenVersions] = {}  # By kind.
    breaker: str = ""  # Why it sends no requests; '' if it does.
    state: Mapping[str, Any] = {}  # What else the part says: the queue's places, paused controllers.
    # Kind -> (revision, time in ns) of the last changes that arrived, of kinds that steer decisions.
    received: Mapping[str, tuple[tuple[int, int], ...]] = {}


class NodeRejections(msgspec.Struct, frozen=True):
    """What a decision found about every node."""

    reasons: dict[str, str]  # Node -> why it was rejected, for people; '' where the pod fits.
    rules: dict[str, str]  # Each of these reasons -> its rule.


class DecisionReader(Protocol):
    """Reads a journal."""

    def query(self, query: RecordQuery) -> list[KeptDecision]:
        """In the order in which they were recorded."""
        ...

    def node_rejections(self, decision: Decision) -> NodeRejections | None:
        """Every node's reason. None where the table was dropped, or never was."""
        ...


def is_about(kept: KeptDecision, ref: ObjectRef) -> bool:
    """Whether the object is the decision's subject, was written by it, or was evicted for it."""
    decision = kept.decision
    return (
        ref.is_subject(decision.subject)
        or any(outcome.object is not None and ref.is_subject(outcome.object) for outcome in kept.outcomes)
        or (ref.resource == "pods" and f"{ref.namespace}/{ref.name}" in victims_of(decision.victims))
    )


def victims_of(victims: Sequence[str]) -> list[str]:
    """The evicted pods, as 'namespace/name'."""
    return [victim.partition(":")[0] for victim in victims]
