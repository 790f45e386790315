"""Trims the oldest part of a journal that has grown to its budget.

Failures, unknown outcomes, decisions by an override, a policy or a quota, pods with a priority, the first
decision under each policy: these stay whole, with every other decision about the same object, so that its
history has no gap. Routine decisions stay in brief: object, time, cause, action and node; no longer the
revisions seen and the reasons against other nodes. Of a decision to do nothing the reason stays, which is all
that it has. Nothing here drops a cause: it goes with its segment, since no reader could join records without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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

Record = Decision | Outcome | Table


def thinned(records: Iterable[Record]) -> Iterator[Record]:
    """The records of a part of a journal after trimming, in their order."""
    records = list(records)
    decisions = [record for record in records if isinstance(record, Decision)]
    matter = _subjects_that_matter(decisions, [record for record in records if isinstance(record, Outcome)])
    tables = _in_use(
        records, {decision.verdicts for decision in decisions if _subject_key(decision) in matter}
    )
    for record in records:
        if isinstance(record, Decision):
            yield record if _subject_key(record) in matter else _in_brief(record)
        elif isinstance(record, Outcome) or record.id in tables:
            yield record


def _subject_key(decision: Decision) -> tuple[str, str, str]:
    return decision.subject.resource, decision.subject.namespace, decision.subject.name


def _subjects_that_matter(decisions: list[Decision], outcomes: list[Outcome]) -> set[tuple[str, str, str]]:
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
        not ROUTINE.issuperset(decision.verdict.split("+"))
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


def _in_brief(decision: Decision) -> Decision:
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
