"""What an Explanation may ask, by its `spec.view`: why (the default), status, stuck. Pure.

`wanted` says which records the question needs; `answer` makes the answer from all the evidence.
"""

from __future__ import annotations

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef, Objects, RecordQuery
from fathom.explain.status import explain_status
from fathom.explain.why.answer import Explanation
from fathom.explain.why_of.kinds import explain_object, wanted_records
from fathom.explain.why_of.lookups import ExplainPod
from fathom.explain.why_of.stuck import stuck

WHY, STATUS, STUCK = "", "status", "stuck"
VIEWS = (WHY, STATUS, STUCK)


class StuckObjects(msgspec.Struct, frozen=True, rename="camel"):
    """Every object that is not as wanted, worst first."""

    as_wanted: bool
    items: tuple[Explanation, ...]


def wanted(subject: ObjectRef, objects: Objects, *, view: str = WHY) -> RecordQuery:
    """A list of what is stuck is made from the objects alone: their records would be those of the cluster."""
    return RecordQuery() if view == STUCK else wanted_records(subject, objects)


def answer(evidence: Evidence, *, view: str = WHY, explain_pod: ExplainPod | None = None) -> msgspec.Struct:
    """`explain_pod`: the full explanation of a pod. Raises NoSubject, NoExplanation."""
    if view == STATUS:
        return explain_status(evidence)
    if view == STUCK:
        items = tuple(stuck(evidence, explain_pod=explain_pod))
        return StuckObjects(not items, items)
    return explain_object(evidence, explain_pod=explain_pod)
