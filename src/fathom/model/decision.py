"""Recorded decisions: what was decided about which object, from which view, why, and with which outcome.

A decision is recorded before its commit is sent; the result follows as an `Outcome` with the same id. So a
process that dies in between leaves a decision without an outcome, which is the truth. A decision to do
nothing has none either: it is recorded when its reason changes, and its message is the reason.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from fathom.model.cause import UNSTATED, WakeCause
from fathom.model.objects import Obj, metadata

# Results of a commit. 'settled' is an unknown outcome that a read has resolved.
Result = Literal["committed", "conflict", "rejected", "unknown", "settled", "held"]


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """The object that a decision is about, as it was at that time."""

    resource: str  # 'pods', 'deployments.apps'
    namespace: str
    name: str
    uid: str = ""
    generation: int = 0


class SeenVersions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How fresh the snapshot was, for one kind."""

    revision: int  # Surely complete: every change up to here was in it.
    age_ms: int = 0  # Since it was last known to be current.
    applied: int = 0  # The newest change in it, if beyond `revision`: it may lack others of that commit.


class Considered(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy, an override, a quota, a budget or a route that the decision considered, as it was then."""

    name: str
    revision: int = 0
    decisive: bool = False  # Without it the decision would have been different.
    resource: str = ""  # 'scheduleroverrides.fathom.dev'
    namespace: str = ""
    uid: str = ""
    generation: int = 0


def considered(resource: str, obj: Obj, *, decisive: bool = False) -> Considered:
    """An object, as a decision considered it."""
    meta = metadata(obj)
    return Considered(
        name=str(meta.get("name") or ""),
        revision=int(meta.get("resourceVersion") or 0),
        decisive=decisive,
        resource=resource,
        namespace=str(meta.get("namespace") or ""),
        uid=str(meta.get("uid") or ""),
        generation=int(meta.get("generation") or 0),
    )


class Rejection(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule that rejected nodes, and what that means: see `model/reasons.py`."""

    rule: str  # '' where there are no nodes to judge.
    boundary: str  # 'capacity': who must act.
    nodes: int  # How many nodes the rule rejected.
    remedy: str = ""  # 'AddCapacity'
    reason: str = ""  # 'capacity/ports': the boundary, with what most of these nodes lack.


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One scheduling attempt, or one change that a controller wants to make."""

    id: str
    time_ns: int  # The deciding process's wall clock.
    controller: str
    subject: Subject
    verdict: str  # One word: 'create', 'bind', 'delete', 'hold', 'nothing', or several: 'create+status'.
    attempt: int = 1
    cause: WakeCause = UNSTATED
    queued_ms: float = 0.0
    seen: dict[str, SeenVersions] = {}  # By kind: 'Pod'.
    epoch: int = 0  # Of the leader; 0 without leader election.
    need: str = ""  # The freshness that was required, and whether it was met.
    actions: tuple[str, ...] = ()  # The requests about to be sent, a line each.
    policies: tuple[Considered, ...] = ()
    overrides: tuple[Considered, ...] = ()
    quotas: tuple[Considered, ...] = ()
    filters: dict[str, int] = {}  # Reason -> how many nodes it removed.
    rejected: tuple[Rejection, ...] = ()  # Of a pod without a node: by rule, the decisive one first.
    place: tuple[int, int] | None = None  # In the queue, when it was taken: which, of how many.
    verdicts: str = ""  # The id of the table with every node's reason.
    differs: tuple[tuple[int, int, int], ...] = ()  # Where it differs from the table: (layer, at, code).
    scores: dict[str, int] = {}  # The best candidates.
    node: str = ""  # The chosen node; for a preemption, where room is made.
    nodes: int = 0  # How many nodes were looked at.
    victims: tuple[str, ...] = ()  # 'namespace/name: why', of pods to evict.
    observed_generation: int = 0
    condition: str = ""  # The condition that goes with it: 'Ready=False/Waiting'.
    message: str = ""
    priority: int = 0  # Of the pod.
    brief: bool = False  # The journal has dropped its detail: an ordinary decision, long ago.
    agent: str = ""  # The node whose agent decided: agents of one process share a journal.

    @property
    def verbs(self) -> frozenset[str]:
        return frozenset(self.verdict.split("+"))


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The outcome of a decision. There may be several: unknown, then settled."""

    id: str  # The decision's.
    time_ns: int
    result: Result
    revision: int = 0  # Committed, or found by a read.
    object: Subject | None = None  # The object that was written, or was to be.
    message: str = ""
    verb: str = ""  # Of a write that a plan has: 'create', 'patch', 'delete', 'evict', 'status'.
    check: str = ""  # Of a refused write: the check that failed at the server, 'NodeFull', 'QuotaExceeded'.


def verb_of(decision: Decision, outcome: Outcome) -> str:
    """What the write did. Decisions without a plan, and old ones, have the verb as their verdict."""
    return outcome.verb or decision.verdict


class KeptDecision(msgspec.Struct, frozen=True):
    """A decision and its outcomes, in the order in which they were recorded."""

    decision: Decision
    outcomes: tuple[Outcome, ...] = ()


class Roster(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of tables of verdicts, in order."""

    id: str
    names: tuple[str, ...]


class VerdictColumn(msgspec.Struct, frozen=True, kw_only=True):
    """The zone, host or other domain of each node of a roster."""

    id: str
    domains: bytes  # Four bytes a node, little-endian, packed by zlib.


class RecordedVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """Every node's reason, stored once for all decisions that share it. The first layer that rejects is the
    reason: the nodes' own (0), then one for each column, by domain."""

    id: str
    roster: str
    reasons: tuple[str, ...]  # By code; '' is "fits".
    codes: bytes  # One byte a node, packed by zlib.
    columns: tuple[str, ...] = ()
    by_domain: tuple[bytes, ...] = ()  # One byte a domain, packed by zlib; one for each column.
    rules: tuple[str, ...] = ()  # By code: the rule of each reason; '' for "fits".
    not_resolvable: tuple[int, ...] = ()  # Codes of reasons against which no eviction helps.


Table = Roster | VerdictColumn | RecordedVerdicts


class Journal(Protocol):
    """Write-only: no decision may depend on it. No call blocks or raises."""

    def decided(self, decision: Decision) -> None: ...

    def concluded(self, outcome: Outcome) -> None: ...

    def tabled(self, table: Table) -> None:
        """Record a table that later decisions refer to."""
        ...


class NoJournal:
    def decided(self, decision: Decision) -> None: ...

    def concluded(self, outcome: Outcome) -> None: ...

    def tabled(self, table: Table) -> None: ...
