"""Compares the decisions of a replay with those of the live process, one by one, by their ids.

Ids are drawn from the process's own stream, so the same code draws the same ids in the same order. A decision
that only one side has is named too. What the journal no longer has, or had not written when its process was
killed, is not compared. The tables of every node's reasons count as part of the decisions that refer to them.
"""

from __future__ import annotations

import zlib

import msgspec

from fathom.model.decision import Decision, RecordedVerdicts, Table, VerdictColumn
from fathom.model.times import micro_timestamp
from fathom.record.journal_trimming import in_brief

# What is shown of a long message.
TEXT_MAX = 300
# Decisions of a replay that a request may still belong to: more than any process has under way.
RECENT_MAX = 10_000
# The controller of decisions that a process's host makes beside the recorded code: see `cli/metrics`.
HOST_CONTROLLER = "/endpoint"


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


class LiveDecisions(msgspec.Struct, frozen=True):
    """What the journal of the live process has."""

    decisions: tuple[Decision, ...] = ()  # In order; empty: there is nothing to compare with.
    tables: tuple[Table, ...] = ()
    # No decision of the process is missing, so one that only the replay makes is a difference too.
    whole: bool = False


NOT_KNOWN = LiveDecisions()


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
    """Decisions from before `since_ns` are of an earlier process."""

    def __init__(self, live: LiveDecisions = NOT_KNOWN, *, since_ns: int = 0) -> None:
        self._live = [
            decision
            for decision in live.decisions
            if decision.time_ns >= since_ns and not decision.controller.endswith(HOST_CONTROLLER)
        ]
        self._places = {decision.id: place for place, decision in enumerate(self._live)}
        self._tables = {table.id: table for table in live.tables}
        self._whole = live.whole
        # The first live decision after the last that the replay made too. None before the first of these:
        # where a clock was set back, decisions of an earlier process may be before it.
        self._next: int | None = None
        self._changed_tables: set[str] = set()  # Ids; the next decision refers to them.
        self.made = 0
        self.newest: Decision | None = None  # Of the replay.
        self._recent: dict[str, Decision] = {}  # Of the replay: a request may follow its decision later.
        self.changed: ChangedDecision | None = None  # The first.
        # Made by the replay alone. A process that was killed had no time to record its last decisions, so
        # this is a difference only if the tape goes on.
        self._extra: ChangedDecision | None = None

    def add(self, decision: Decision) -> None:
        """The replay has made this decision."""
        self.made += 1
        self.newest = decision
        self._recent[decision.id] = decision
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]
        if self.changed is not None:
            return
        place = self._places.get(decision.id)
        if place is None:
            if self._whole and self._extra is None:
                self._extra = ChangedDecision(self.made, None, summary_of(decision))
        elif self._next is not None and place > self._next:
            self.changed = ChangedDecision(self.made, summary_of(self._live[self._next]), None)
        else:
            self._next = place + 1
            self.changed = self._difference(self._live[place], decision)

    def add_table(self, table: Table) -> None:
        """The replay has made this table, for the decision that it records next."""
        live = self._tables.get(table.id)
        if live is not None and _unpacked(live) != _unpacked(table):
            self._changed_tables.add(table.id)

    def _difference(self, live: Decision, replayed: Decision) -> ChangedDecision | None:
        compared = in_brief(replayed) if live.brief else replayed
        fields: tuple[str, ...] = ()
        if compared != live:
            names = Decision.__struct_fields__
            fields = tuple(name for name in names if getattr(compared, name) != getattr(live, name))
        if self._changed_tables and not live.brief and "verdicts" not in fields:
            fields = (*fields, "verdicts")
        self._changed_tables.clear()
        if not fields:
            return None
        return ChangedDecision(self.made, summary_of(live), summary_of(replayed), fields)

    def went_on(self) -> None:
        """The tape goes on: the live process would have recorded what only the replay has decided so far."""
        if self.changed is None:
            self.changed = self._extra

    def end(self, now_ns: int) -> None:
        """The tape has ended at this time: the replay must have made all live decisions up to it."""
        missing = self._missing()
        newest_ns = self.newest.time_ns if self.newest is not None else 0
        if self.changed is None and missing is not None and newest_ns <= missing.time_ns <= now_ns:
            self.changed = ChangedDecision(self.made, summary_of(missing), None)

    def _missing(self) -> Decision | None:
        """The first live decision that the replay has not made."""
        place = self._next or 0
        return self._live[place] if place < len(self._live) else None

    def around(self, now_ns: int, *, replayed: bool, sent_for: str | None = None) -> ChangedDecision | None:
        """The decision that a request belongs to in which the replay differs, as far as it is known: of the
        replay, if it sent the request, that which the request names (`sent_for`), else the newest; and the
        first live one that the replay has not made. A live one of a later time does not belong to a request
        that the replay sent."""
        if self.changed is not None:
            return self.changed
        decision = self._recent.get(sent_for or "", self.newest) if replayed else None
        missing = self._missing()
        if decision is not None and missing is not None and missing.time_ns > now_ns:
            missing = None
        if decision is None and missing is None:
            decision = self.newest if self.newest is not None and self.newest.time_ns == now_ns else None
        if decision is None and missing is None:
            return None
        live = None if missing is None else summary_of(missing)
        return ChangedDecision(self.made, live, None if decision is None else summary_of(decision))


def _unpacked(table: Table) -> Table:
    """Compressed bytes may differ between two versions of zlib."""
    if isinstance(table, VerdictColumn):
        return msgspec.structs.replace(table, domains=zlib.decompress(table.domains))
    if isinstance(table, RecordedVerdicts):
        by_domain = tuple(map(zlib.decompress, table.by_domain))
        return msgspec.structs.replace(table, codes=zlib.decompress(table.codes), by_domain=by_domain)
    return table
