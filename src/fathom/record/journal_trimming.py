"""Trims the oldest part of a journal that has grown to its budget.

Failures, unknown outcomes, decisions by an override, a policy or a quota, pods with a priority, the first
decision under each policy: these stay whole, with every other decision about the same object, so that its
history has no gap. Routine decisions stay in brief: object, time, action and node; no longer the revisions
seen and the reasons against other nodes.
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

# Routine verdicts, and the results with which they count as routine.
ROUTINE = frozenset({"bind", "create", "patch", "delete", "status"})
WELL = frozenset({"committed", "settled"})

Record = Decision | Outcome | Table


def thinned(records: Iterable[Record]) -> Iterator[Record]:
    """The records of a part of a journal after trimming, in their order."""
    records = list(records)
    decisions = [record for record in records if isinstance(record, Decision)]
    matter = _that_matter(decisions, [record for record in records if isinstance(record, Outcome)])
    tables = _in_use(records, {one.verdicts for one in decisions if _who(one) in matter})
    for record in records:
        if isinstance(record, Decision):
            yield record if _who(record) in matter else _in_brief(record)
        elif isinstance(record, Outcome) or record.id in tables:
            yield record


def _who(one: Decision) -> tuple[str, str, str]:
    return one.subject.resource, one.subject.namespace, one.subject.name


def _that_matter(decisions: list[Decision], outcomes: list[Outcome]) -> set[tuple[str, str, str]]:
    ended = {one.id for one in outcomes if one.result in WELL}
    doubtful = {one.id for one in outcomes if one.result not in WELL}
    policies: set[Considered] = set()
    matter = set()
    for one in decisions:
        new = not policies.issuperset(one.policies)
        policies.update(one.policies)
        if new or one.id in doubtful or one.id not in ended or _is_unusual(one):
            matter.add(_who(one))
    return matter


def _is_unusual(one: Decision) -> bool:
    return (
        not ROUTINE.issuperset(one.verdict.split("+"))
        or one.priority > 0
        or bool(one.overrides or one.victims)
        or any(each.decisive for each in (*one.policies, *one.quotas))
    )


def _in_use(records: list[Record], verdicts: set[str]) -> set[str]:
    """The given tables, and those of their parts that are among the records; other parts may be in older
    ones."""
    used = [record for record in records if isinstance(record, RecordedVerdicts) and record.id in verdicts]
    parts = {part for table in used for part in (table.roster, *table.columns)}
    here = {record.id for record in records if isinstance(record, Roster | VerdictColumn)}
    return verdicts | (parts & here)


def _in_brief(one: Decision) -> Decision:
    return msgspec.structs.replace(
        one,
        brief=True,
        seen={},
        need="",
        cause_detail="",
        quotas=(),
        filters={},
        verdicts="",
        differs=(),
        scores={},
        place=None,
        message="",
    )
