"""A decision as it is kept: what was decided about which object, from what, why, and what came of it.

It is written before the commit that it describes is sent; what came of that follows as an `Outcome`, joined
by the id. So a process that dies in between leaves a decision without an outcome, which is the truth.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

# What can come of a commit. 'settled' is an unknown outcome that a read has cleared up.
Result = Literal["committed", "conflict", "rejected", "unknown", "settled", "held"]


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """The object that a decision is about, as it was then."""

    resource: str  # 'pods', 'deployments.apps'
    namespace: str
    name: str
    uid: str = ""
    generation: int = 0


class SeenVersions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How fresh the snapshot was, for one kind."""

    revision: int
    age_ms: int = 0  # Since its watch last heard from the server.


class Considered(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy, an override or a quota that was looked at."""

    name: str
    revision: int = 0
    decisive: bool = False  # Without it the decision would have been another.


class Rejection(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule that kept nodes from a pod, and what that means: see `model/reasons.py`."""

    rule: str  # '' where there are no nodes to judge.
    boundary: str  # 'capacity': whose turn it is.
    nodes: int  # How many nodes the rule rejected.
    remedy: str = ""  # 'AddCapacity'
    reason: str = ""  # 'capacity/ports': the boundary, with what most of these nodes lack.


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One scheduling attempt, or one controller's wish to change the world."""

    id: str
    time_ns: int  # The deciding process's wall clock.
    controller: str
    subject: Subject
    verdict: str  # In a word: 'create', 'bind', 'delete', 'hold', 'unschedulable'.
    attempt: int = 1
    cause: str = ""  # 'event', 'timer', 'retry', 'decision', …
    cause_detail: str = ""  # Which event, timer or decision.
    queued_ms: float = 0.0
    seen: dict[str, SeenVersions] = {}  # By resource.
    epoch: int = 0  # Of the leader; 0 where nobody leads.
    need: str = ""  # The freshness that was asked for, and whether it was met.
    actions: tuple[str, ...] = ()  # What is about to be sent, a line each.
    policies: tuple[Considered, ...] = ()
    overrides: tuple[Considered, ...] = ()
    quotas: tuple[Considered, ...] = ()
    filters: dict[str, int] = {}  # Reason -> how many nodes it removed.
    rejected: tuple[Rejection, ...] = ()  # Of a pod without a node: by rule, the decisive one first.
    place: tuple[int, int] | None = None  # In line, when it was taken: which, of how many.
    verdicts: str = ""  # The table that has every node's own reason.
    differs: tuple[tuple[int, int, int], ...] = ()  # Where it is not as in the table: (layer, at, code).
    scores: dict[str, int] = {}  # The best candidates.
    node: str = ""  # That was chosen; for a preemption, that was made room on.
    nodes: int = 0  # How many were looked at.
    victims: tuple[str, ...] = ()  # 'namespace/name: why', of pods that are to go.
    observed_generation: int = 0
    condition: str = ""  # The condition that goes with it: 'Ready=False/Waiting'.
    message: str = ""
    priority: int = 0  # Of the pod.
    brief: bool = False  # The journal has let its detail go: it went as usual, long ago.


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What came of a decision. There may be several: unknown, then settled."""

    id: str  # The decision's.
    time_ns: int
    result: Result
    revision: int = 0  # That was committed, or that was found.
    message: str = ""
    check: str = ""  # Of a binding that was refused: which predicate was false.


class KeptDecision(msgspec.Struct, frozen=True):
    """A decision and what came of it, in the order in which it was heard."""

    decision: Decision
    outcomes: tuple[Outcome, ...] = ()


class Roster(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that tables of verdicts are about, in their order."""

    id: str
    names: tuple[str, ...]


class VerdictColumn(msgspec.Struct, frozen=True, kw_only=True):
    """In which zone, host or other domain each node of a roster is."""

    id: str
    domains: bytes  # Four bytes a node, little end first, packed by zlib.


class RecordedVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """Every node's reason, kept once for all decisions that it holds for. The first layer that objects is the
    reason: the nodes' own (0), then one for each column, by domain."""

    id: str
    roster: str
    reasons: tuple[str, ...]  # What the codes say; '' is "fits".
    codes: bytes  # One byte a node, packed by zlib.
    columns: tuple[str, ...] = ()
    by_domain: tuple[bytes, ...] = ()  # One byte a domain, packed by zlib; one for each column.


Table = Roster | VerdictColumn | RecordedVerdicts


class Journal(Protocol):
    """Takes and never answers: nothing that is decided may depend on it. No call blocks or raises."""

    def decided(self, decision: Decision) -> None: ...

    def concluded(self, outcome: Outcome) -> None: ...

    def tabled(self, table: Table) -> None:
        """What decisions that follow refer to."""
        ...


class NoJournal:
    def decided(self, decision: Decision) -> None: ...

    def concluded(self, outcome: Outcome) -> None: ...

    def tabled(self, table: Table) -> None: ...
