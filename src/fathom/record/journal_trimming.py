"""Trims the oldest part of a journal that has grown to its budget.

Failures, unknown outcomes, decisions by an override, a policy or a quota, pods with a priority, the first
decision under each policy: these stay whole, with every other decision about the same object, so that its
history has no gap. Routine decisions stay in brief: object, time, cause, action and node; no longer the
revisions seen and the reasons against other nodes. Of a decision to do nothing the reason stays, which is all
that it has. Nothing here drops the cause of a decision that stays: no reader could join records without it.

When that is not enough, routine decisions are removed (`failures_only`), the oldest first: an object that
failed keeps its own records, however many routine ones follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

import msgspec

from fathom.model.decision import (
    Considered,
    Decision,
    Outcome,
    RecordedVerdicts,
    Roster,
    Table,
    VerdictColumn,
)

NOTHING = "nothing"  # The verdict of a decision that sends nothing, and so has no outcome.
# Routine verdicts, and the results with which they count as routine.
ROUTINE = frozenset({"bind", "create", "patch", "delete", "status", NOTHING})
WELL = frozenset({"committed", "settled"})

# How many failing objects a journal remembers; the one that failed longest ago is forgotten first.
FAILING_MAX = 10_000

Record = Decision | Outcome | Table
SubjectKey = tuple[str, str, str]


def is_routine(decision: Decision) -> bool:
    """By its verdict, which may be several words: 'create+status'."""
    return decision.verdict in ROUTINE or decision.verbs <= ROUTINE


class FailingObjects:
    """Objects whose decisions were no routine, so that later segments keep their detail too."""

    def __init__(self) -> None:
        self._subjects: dict[SubjectKey, None] = {}

    def note(self, decision: Decision) -> None:
        key = _subject_key(decision)
        self._subjects.pop(key, None)
        self._subjects[key] = None
        if len(self._subjects) > FAILING_MAX:
            del self._subjects[next(iter(self._subjects))]

    def keys(self) -> frozenset[SubjectKey]:
        return frozenset(self._subjects.copy())


def failures_only(records: Iterable[Record], failing: Set[SubjectKey] = frozenset()) -> Iterator[Record]:
    """The records of objects with a decision that failed or whose outcome is in doubt, in their order.
    `failing`: objects that failed in other parts."""
    records = list(records)
    decisions = [record for record in records if isinstance(record, Decision)]
    doubtful = {record.id for record in records if isinstance(record, Outcome) and record.result not in WELL}
    failed = failing | {
        _subject_key(decision)
        for decision in decisions
        if decision.id in doubtful or not is_routine(decision)
    }
    kept = {decision.id: decision for decision in decisions if _subject_key(decision) in failed}
    tables = _in_use(records, {decision.verdicts for decision in kept.values()})
    for record in records:
        if record.id in (tables if isinstance(record, Table) else kept):
            yield record


def thinned(records: Iterable[Record], failing: Set[SubjectKey] = frozenset()) -> Iterator[Record]:
    """The records of a part of a journal after trimming, in their order. `failing`: objects that failed in
    other parts."""
    records = list(records)
    decisions = [record for record in records if isinstance(record, Decision)]
    outcomes = [record for record in records if isinstance(record, Outcome)]
    matter = _subjects_that_matter(decisions, outcomes) | failing
    tables = _in_use(
        records, {decision.verdicts for decision in decisions if _subject_key(decision) in matter}
    )
    for record in records:
        if isinstance(record, Decision):
            yield record if _subject_key(record) in matter else in_brief(record)
        elif isinstance(record, Outcome) or record.id in tables:
            yield record


def _subject_key(decision: Decision) -> SubjectKey:
    return decision.subject.resource, decision.subject.namespace, decision.subject.name


def _subjects_that_matter(decisions: list[Decision], outcomes: list[Outcome]) -> set[SubjectKey]:
    ended = {outcome.id for outcome in outcomes if outcome.result in WELL}
    doubtful = {outcome.id for outcome in outcomes if outcome.result not in WELL}
    policies: set[Considered] = set()
    matter = set()
    for decision in decisions:
        new = not policies.issuperset(decision.policies)
        policies.update(decision.policies)
        has_ended = decision.id in ended or decision.verdict == NOTHING
        if new or decision.id in doubtful or not has_ended or _is_unusual(decision):
            matter.add(_subject_key(decision))
    return matter


def _is_unusual(decision: Decision) -> bool:
    return (
        not is_routine(decision)
        or decision.priority > 0
        or bool(decision.overrides or decision.victims)
        or any(considered.decisive for considered in (*decision.policies, *decision.quotas))
    )


def _in_use(records: list[Record], verdicts: set[str]) -> set[str]:
    """The given tables, and those of their parts that are among the records; other parts may be in older
    ones."""
    used = [record for record in records if isinstance(record, RecordedVerdicts) and record.id in verdicts]
    parts = {part for table in used for part in (table.roster, *table.columns)}
    recorded = {record.id for record in records if isinstance(record, Roster | VerdictColumn)}
    return verdicts | (parts & recorded)


def in_brief(decision: Decision) -> Decision:
    return msgspec.structs.replace(
        decision,
        brief=True,
        seen={},
        need="",
        quotas=(),
        filters={},
        verdicts="",
        differs=(),
        scores={},
        place=None,
        message=decision.message if decision.verdict == NOTHING else "",
    )
