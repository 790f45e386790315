"""Puts an answer together: a stage gives verdict, cause and change; the records are the same for all."""

from __future__ import annotations

from typing import Any

from fathom.explain.evidence import ObjectRef
from fathom.explain.why.answer import Change, Explanation, summary_of
from fathom.explain.why.case import PODS, PodCase
from fathom.explain.why.records import cited, freshness
from fathom.model.objects import uid_of


def answer(
    case: PodCase,
    stage: str,
    verdict: str,
    cause: str,
    *,
    change: Change | None = None,
    as_wanted: bool = False,
    **more: Any,
) -> Explanation:
    return Explanation(
        subject=ObjectRef(PODS, *case.key, uid_of(case.pod)),
        summary=summary_of(case.name, verdict, cause, change),
        verdict=verdict,
        as_wanted=as_wanted,
        cause=cause,
        stage=stage,
        change=change,
        freshness=more.pop("freshness", None) or freshness(case),
        gaps=case.evidence.gaps,
        decisions=more.pop("decisions", None) or cited(case.decisions),
        **more,
    )
