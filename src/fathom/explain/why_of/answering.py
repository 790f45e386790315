"""Puts an answer together: verdict and trouble of one object, with the decisions that it rests on."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef, Recorded
from fathom.explain.why.answer import CauseGroup, Change, Explanation, TroubleKind, summary_of
from fathom.explain.why.records import cited
from fathom.explain.why_of.lookups import freshness_of, last_decision, title
from fathom.model.objects import Obj, key_of


class SubjectTrouble(msgspec.Struct, frozen=True):
    """Why a subject is not as wanted."""

    verdict: str  # After the subject's name: 'is paused'.
    cause: str
    change: Change | None = None
    causes: tuple[CauseGroup, ...] = ()
    related: tuple[ObjectRef, ...] = ()
    kind: TroubleKind = "trouble"


def answered(
    evidence: Evidence,
    obj: Obj,
    trouble: SubjectTrouble | None,
    *,
    stage: str,  # Which part of this package answered: deployments, nodes.
    verdict: str,  # In full, with counts.
    controller: str = "",  # Whose last decision is cited; '': none.
    cause: str = "",  # Where there is no trouble.
    causes: Iterable[CauseGroup] = (),
    related: Iterable[ObjectRef] = (),
    ready: int | None = None,  # Of a workload: the counts in its verdict.
    wanted: int | None = None,
) -> Explanation:
    """The answer about an object that exists: as wanted if there is no trouble."""
    decision = last_decision(evidence, obj, controller) if controller else None
    explanation = explained(
        evidence,
        name=title(evidence.subject.resource, key_of(obj)),
        stage=stage,
        verdict=verdict,
        as_wanted=trouble is None,
        cause=cause if trouble is None else trouble.cause,
        change=None if trouble is None else trouble.change,
        causes=causes if trouble is None else trouble.causes,
        related=(*(() if trouble is None else trouble.related), *related),
        decisions=() if decision is None else (decision,),
        kind="trouble" if trouble is None else trouble.kind,
    )
    return msgspec.structs.replace(explanation, ready=ready, wanted=wanted)


def explained(
    evidence: Evidence,
    *,
    name: str,  # 'Deployment shop/web'
    stage: str,
    verdict: str,
    as_wanted: bool = False,
    cause: str = "",
    change: Change | None = None,
    causes: Iterable[CauseGroup] = (),
    related: Iterable[ObjectRef] = (),
    decisions: Iterable[Recorded] = (),
    kind: TroubleKind = "trouble",
) -> Explanation:
    records = tuple(decisions)
    return Explanation(
        subject=evidence.subject,
        summary=summary_of(name, verdict, cause, change),
        verdict=verdict,
        as_wanted=as_wanted,
        cause=cause,
        stage=stage,
        change=change,
        causes=tuple(causes),
        related=tuple(dict.fromkeys(related)),
        decisions=cited(records),
        gaps=evidence.gaps,
        freshness=freshness_of(evidence, records[-1] if records else None),
        kind=kind,
    )
