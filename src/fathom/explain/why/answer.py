"""The answer to "why": one line first, then the evidence. A document of the API: its names are stable."""

from __future__ import annotations

from typing import Literal

import msgspec

from fathom.explain.evidence import Gap, ObjectRef
from fathom.model.decision import Rejection

NOBODY = "nobody has to act"  # `Change.who` where time ends the trouble.


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """A change after which the subject would be as wanted, or come further, and who may make it."""

    what: str  # 'lower cpu of container web to 666m'
    command: str = ""  # To type; '' where no single command does it.
    who: str = ""  # 'the pod's owner'
    nodes: int = 0  # For a pod without a node: how many nodes would take it then.
    one_of: int = 1  # How many changes of the same size would do as well, this one included.


class NodeGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that were rejected for one reason. `nodes` is empty for users who may not see nodes."""

    reason: str
    count: int
    nodes: tuple[str, ...] = ()
    recorded: bool = False  # By the last decision on record; else by the decision that was made again now.


class NodeRow(msgspec.Struct, frozen=True, rename="camel"):
    """One node: why it does not take the pod, or its score."""

    node: str
    fits: bool
    reason: str = ""
    score: int | None = None


class DetailGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Further facts under one heading."""

    title: str
    lines: tuple[str, ...]


class QueuePlace(msgspec.Struct, frozen=True, rename="camel"):
    place: int
    of: int
    ahead: tuple[str, ...] = ()  # Pods that are taken before it, in order; the nearest where there are many.
    source: str = "queue"  # 'queue': as it is now. 'record': when it was last taken.


class Freshness(msgspec.Struct, frozen=True, rename="camel"):
    """How fresh the view of one kind was that the last decision used."""

    kind: str
    used: int  # Every change up to here was in the view.
    applied: int  # The newest change in it.
    latest: int  # The newest change of the kind.
    age_ms: int = 0

    @property
    def is_behind(self) -> bool:
        return max(self.used, self.applied) < self.latest


class Now(msgspec.Struct, frozen=True, rename="camel"):
    """The decider's answer for the cluster as it is, and whether it differs from the last one recorded."""

    differs: bool
    answer: str
    node: str = ""


class CitedDecision(msgspec.Struct, frozen=True, rename="camel"):
    """A decision on record that the answer rests on."""

    id: str
    time: str
    process: str
    controller: str
    verdict: str
    attempt: int = 1
    queued_ms: float = 0.0
    cause: str = ""
    node: str = ""
    message: str = ""
    outcome: str = ""
    considered: tuple[str, ...] = ()  # 'policy v5 at 12', 'quota risk at 40, decisive'
    victims: tuple[str, ...] = ()


class CauseGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Objects that have one cause in common, as the pods of a workload."""

    cause: str  # 'quota/risk-zone-c', 'image'
    count: int
    objects: tuple[str, ...] = ()  # Names that the user may see, the first few: possibly fewer than `count`.
    message: str = ""


class ActiveOverride(msgspec.Struct, frozen=True, rename="camel"):
    """A SchedulerOverride that changes what is done about the subject."""

    namespace: str
    name: str
    author: str
    ends_at: str
    ends_in: str  # '31m', from the moment that the answer is of.
    changes: tuple[str, ...]  # Names of the changes: 'pauseAutoscaler'.


# What kind of trouble an answer tells of. What passes by itself, and what people have done on purpose, is
# less urgent than the rest. Something that is held only repeats the trouble of a related object.
TroubleKind = Literal["trouble", "passing", "intended", "held"]


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    subject: ObjectRef
    summary: str  # The first line: verdict, cause, change, who may make it.
    verdict: str  # 'is not scheduled'
    as_wanted: bool
    cause: str
    stage: str  # 'unschedulable': the file of this package that answered.
    change: Change | None = None
    changes: tuple[Change, ...] = ()  # Others that would help too, the smaller ones first.
    details: tuple[DetailGroup, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    queue: QueuePlace | None = None
    freshness: tuple[Freshness, ...] = ()
    now: Now | None = None
    next_trigger: str = ""
    gaps: tuple[Gap, ...] = ()
    decisions: tuple[CitedDecision, ...] = ()  # The newest last.
    rejected: tuple[Rejection, ...] = ()  # The rules that reject the pod now, the decisive one first.
    causes: tuple[CauseGroup, ...] = ()  # For a workload or a Service: its pods by cause, most first.
    related: tuple[ObjectRef, ...] = ()  # Objects to ask about next.
    active_overrides: tuple[ActiveOverride, ...] = ()  # Those that the answer does not name elsewhere.
    fights: tuple[str, ...] = ()  # What two writers change back and forth, about it and what it depends on.
    kind: TroubleKind = "trouble"  # Of an answer that is not as wanted.
    ready: int | None = None  # Of a workload: replicas that are ready, or completions; None: unknown.
    wanted: int | None = None  # Of a workload: how many there should be.


def summary_of(subject: str, verdict: str, cause: str, change: Change | None) -> str:
    """'pod shop/web is not ready: … . Change: … (who)'. Causes quote other programs: no full stop twice."""
    line = f"{subject} {verdict}: {cause.rstrip('. ')}" if cause else f"{subject} {verdict}"
    if change is None:
        return line
    who = f" ({change.who})" if change.who else ""
    return f"{line}. Change: {change.what}{who}"
