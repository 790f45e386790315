"""Compares the decisions of a replay with those of the live process, one by one, by their ids.

Ids are drawn from the process's own stream, so the same code draws the same ids in the same order. A decision
that only one side has is named when the other side has something else in its place; one that the journal has
dropped, or had not written when its process was killed, is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.model.decision import Decision
from fathom.model.times import micro_timestamp
from fathom.record.journal_trimming import in_brief

# What is shown of a long message.
TEXT_MAX = 300


class DecisionSummary(msgspec.Struct, frozen=True):
    """A decision, described for output."""

    id: str
    time: str
    controller: str
    object: str  # 'pods default/web-1'
    verdict: str
    node: str = ""
    message: str = ""
    actions: tuple[str, ...] = ()


class ChangedDecision(msgspec.Struct, frozen=True):
    """The decision in which a replay differs first. None: that side decided nothing, or it is not known."""

    number: int  # From 1, in the order of the replay.
    live: DecisionSummary | None
    replayed: DecisionSummary | None
    fields: tuple[str, ...] = ()  # Where both are known: the fields that differ.


def summary_of(decision: Decision) -> DecisionSummary:
    subject = decision.subject
    where = f"{subject.namespace}/" if subject.namespace else ""
    return DecisionSummary(
        id=decision.id,
        time=micro_timestamp(decision.time_ns),
        controller=decision.controller,
        object=f"{subject.resource} {where}{subject.name}",
        verdict=decision.verdict,
        node=decision.node,
        message=decision.message[:TEXT_MAX],
        actions=decision.actions[:3],
    )


class DecisionComparison:
    """`live`: the decisions of the live process, in order; empty: there is nothing to compare with. Decisions
    from before `since_ns` are of an earlier process."""

    def __init__(self, live: Iterable[Decision] = (), *, since_ns: int = 0) -> None:
        self._live = [decision for decision in live if decision.time_ns >= since_ns]
        self._places = {decision.id: place for place, decision in enumerate(self._live)}
        self._next = 0  # The first live decision after the last that the replay made too.
        self.made = 0
        self.newest: Decision | None = None  # Of the replay.
        self.changed: ChangedDecision | None = None  # The first.

    def add(self, decision: Decision) -> None:
        """The replay has made this decision."""
        self.made += 1
        self.newest = decision
        place = self._places.get(decision.id)
        if place is None or self.changed is not None:
            return
        live = self._live[place]
        self._next = place + 1
        compared = in_brief(decision) if live.brief else decision
        if compared != live:
            fields = tuple(
                name for name in Decision.__struct_fields__ if getattr(compared, name) != getattr(live, name)
            )
            self.changed = ChangedDecision(self.made, summary_of(live), summary_of(decision), fields)

    def around(self, now_ns: int, *, replayed: bool) -> ChangedDecision | None:
        """The decision that a request belongs to in which the replay differs, as far as it is known: the
        newest of the replay where the replay sent it, and the first live one that the replay has not made. A
        live one of a later time does not belong to a request that the replay sent."""
        if self.changed is not None:
            return self.changed
        made = self.newest if replayed and self.newest is not None else None
        missing = self._live[self._next] if self._next < len(self._live) else None
        if made is not None and missing is not None and missing.time_ns > now_ns:
            missing = None
        if made is None and missing is None:
            made = self.newest if self.newest is not None and self.newest.time_ns == now_ns else None
        if made is None and missing is None:
            return None
        live = None if missing is None else summary_of(missing)
        return ChangedDecision(self.made, live, None if made is None else summary_of(made))
