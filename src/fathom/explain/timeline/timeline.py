"""Timeline: entries about one object and its surroundings, by time, and edges from cause to effect."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import msgspec

from fathom.explain.evidence import Gap, ObjectRef
from fathom.model.decision import Result
from fathom.model.times import moment_ns

Source = Literal[
    "audit", "decision", "event", "condition", "cache", "admission", "override", "queue",
    "process", "fault", "check",  # The last three are known to the simulator only.
]  # fmt: skip
# 'woke': a write woke a decision; 'wrote': a decision wrote; 'saw': a cache received a write;
# 'used': a decision used a cache; 'reported': an Event or a condition tells of it; 'led to': the rest.
EdgeKind = Literal["woke", "wrote", "saw", "used", "reported", "led to"]
# Of the object of an entry, as the subject sees it; '': it is none of these.
Role = Literal["", "subject", "owner", "owned", "cited"]


class ReadVersion(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Of one kind that a decision was made from."""

    revision: int  # Every change up to here was in the cache.
    newest: int = 0  # The newest change in it, if beyond `revision`.
    age_ms: int = 0  # Since it was last known to be current.


class WriteResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of one write of a decision."""

    result: Result
    revision: int = 0
    check: str = ""  # Of a refused write: the check that failed at the server.


class DecisionPath(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a decision followed from and what came of it. With the entry's object and generation, and the
    edges to what it wrote, this is the whole path of a decision."""

    queued_ms: float | None = None  # None: it did not come from a queue.
    place: tuple[int, int] | None = None  # In the queue, when it was taken: which, of how many.
    read: dict[str, ReadVersion] = {}  # By kind.
    filters: dict[str, int] = {}  # Reason -> how many nodes it removed.
    scores: dict[str, int] = {}  # Node -> score, of the best.
    results: tuple[WriteResult, ...] = ()
    observed_generation: int = 0
    condition: str = ""  # 'PodScheduled=False/Unschedulable'


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """`actor` and `text` together are a sentence: 'scheduler' 'chooses node-1 for pod web-1'."""

    id: str
    time: str  # RFC 3339 with microseconds, so texts sort as times do.
    source: Source
    actor: str
    text: str
    object: ObjectRef | None = None
    revision: int = 0  # Of the write, or of what a cache had received.
    generation: int = 0  # Of the object, where the record has it.
    ids: dict[str, str] = {}  # 'decision', 'request', 'user': what to search other records for.
    count: int = 1  # How many similar entries this one stands for.
    until: str = ""  # The time of the last of them.
    also: tuple[str, ...] = ()  # The ids of the others of them.
    role: Role = ""
    path: DecisionPath | None = None  # Of a decision.
    routine: bool = False  # A report of status: left out of a timeline of something else.
    possible_cause: str = ""  # Of a simulated run that failed: 'lost reply', 'stale read'.

    @property
    def time_ns(self) -> int:
        return moment_ns(self.time) or 0


class Edge(msgspec.Struct, frozen=True, omit_defaults=True):
    """Recorded, unless `inferred`: then the cause is the only candidate by object and time."""

    cause: str  # The id of an entry.
    effect: str
    kind: EdgeKind
    inferred: bool = False


class Timeline(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    subject: ObjectRef
    generation: int = 0  # Of the subject, when asked.
    entries: tuple[Entry, ...] = ()  # Oldest first.
    edges: tuple[Edge, ...] = ()
    gaps: tuple[Gap, ...] = ()
    time: str = ""  # When it was asked, by the clock of the API server.
    as_of: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET  # Where it ends before now: the API says it.


class TimelineSpec(msgspec.Struct, frozen=True, kw_only=True):
    since_ns: int = 0
    until_ns: int = 0  # 0: no end.
    until_revision: int = 0  # Up to the last write until this revision; 0: no end.
    generation: int = 0  # Only from the first to the last entry of this generation; 0: all of them.
    fold: bool = True  # Show similar entries as one, with a count.
    entries_max: int = 500  # The newest are kept.


def write_id(revision: int, ref: ObjectRef) -> str:
    """A commit has one revision, which no other has; it may write several objects."""
    return f"write:{revision}:{path_of(ref)}"


def path_of(ref: ObjectRef) -> str:
    return "/".join(part for part in (ref.resource, ref.namespace, ref.name) if part)


def decision_id(id_: str) -> str:
    return f"decision:{id_}"


@lru_cache(maxsize=256)
def singular(resource: str) -> str:
    """'replicasets.apps' -> 'replicaset'"""
    plural = resource.partition(".")[0]
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if plural.endswith(ending):
            return plural.removesuffix(ending) + instead
    return plural


def words_for(ref: ObjectRef) -> str:
    """'pod web-1'"""
    return f"{singular(ref.resource)} {ref.name}"
