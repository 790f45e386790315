"""The table of questions: which functions of `explain/` answer which kind.

A question takes two pure steps around the collecting: `wanted` says which records are needed, `answer` makes
the status from all the evidence. Both run in a thread: they may take as long as a scheduling pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fathom.ask.kept_cluster import KeptCluster
from fathom.ask.objects import CachedObjects
from fathom.ask.subjects import no_such_subject
from fathom.explain import questions
from fathom.explain.coupling import answer as coupling_answer
from fathom.explain.evidence import Evidence, ObjectRef, Objects, RecordQuery
from fathom.explain.status import NoSubject
from fathom.explain.timeline import asked
from fathom.explain.timeline import wanted as timeline_wanted
from fathom.explain.why.answer import Explanation
from fathom.explain.why.gone import NO_RECORD
from fathom.explain.why.what_if import BadPatch, read_patch, what_if
from fathom.explain.why_of.kinds import NoExplanation
from fathom.explain.why_of.lookups import CLUSTER_SCOPED, KIND_NAMES
from fathom.kinds.coupling import COUPLINGS, CouplingSpec
from fathom.kinds.explanation import EXPLANATIONS, ExplanationSpec
from fathom.kinds.timeline import TIMELINES, TimelineSpec
from fathom.model.errors import ApiError, bad_request

Spec = ExplanationSpec | TimelineSpec | CouplingSpec


class AnswerFunctions(msgspec.Struct, frozen=True):
    wanted: Callable[[ObjectRef, Objects, Any], RecordQuery]
    answer: Callable[[Evidence, Any, KeptCluster], msgspec.Struct]
    # What the records cite beyond the first query, if anything: asked for once.
    wanted_more: Callable[[Evidence, Any], RecordQuery | None] | None = None


# Kind of question -> its `spec`.
SPECS: dict[str, type[Spec]] = {
    EXPLANATIONS: ExplanationSpec,
    TIMELINES: TimelineSpec,
    COUPLINGS: CouplingSpec,
}


def _wanted(subject: ObjectRef, objects: Objects, spec: ExplanationSpec) -> RecordQuery:
    if spec.view not in questions.VIEWS:
        raise bad_request(f"spec.view must be one of {', '.join(filter(None, questions.VIEWS))}, or absent")
    if spec.view == questions.STUCK and subject.resource != "namespaces":
        raise bad_request("spec.subject must be a Namespace where spec.view is stuck")
    return questions.wanted(subject, objects, view=spec.view)


def _explained(evidence: Evidence, spec: ExplanationSpec, kept: KeptCluster) -> msgspec.Struct:
    """Raises 400 for a kind that has no explanation, 404 for an object of which nothing is known."""
    subject = evidence.subject
    try:
        patches = [read_patch(text, subject.namespace, resource_of) for text in spec.what_if]
        answer = _answer(what_if(evidence, patches) if patches else evidence, spec, kept)
    except (BadPatch, NoExplanation) as error:
        raise bad_request(str(error)) from None
    except NoSubject:
        raise no_such_subject(subject) from None
    # A pod that was refused has a cause, though it does not exist and no decision is about it.
    has_cause = isinstance(answer, Explanation) and answer.cause not in {"", NO_RECORD}
    if subject.name and not has_cause and not _is_known(evidence):
        raise no_such_subject(subject)
    return answer


def _answer(evidence: Evidence, spec: ExplanationSpec, kept: KeptCluster) -> msgspec.Struct:
    """Objects of the past, and those of a question "what if", get a view of their own."""
    if not isinstance(evidence.objects, CachedObjects) or spec.view == questions.STATUS:
        return questions.answer(evidence, view=spec.view, rules=kept.rules)
    with kept.view_of(evidence.objects) as cluster:
        try:
            return questions.answer(evidence, view=spec.view, rules=kept.rules, cluster=cluster)
        except (NoSubject, NoExplanation) as error:
            refusal = error  # Raised outside: an unexpected error discards the view.
    raise refusal


def _is_known(evidence: Evidence) -> bool:
    """Whether the subject exists, or something is on record about it, or may be where nobody could look."""
    exists = evidence.objects.get(evidence.subject.resource, evidence.subject.key) is not None
    return exists or bool(evidence.decisions or evidence.audit or evidence.gaps)


def resource_of(kind: str) -> tuple[str, bool] | None:
    """'node', 'Node', 'nodes', 'tenantquotas.fathom.dev': the resource, and whether it has namespaces."""
    wanted = kind.lower()
    for resource, name in KIND_NAMES.items():
        if wanted in {resource, resource.partition(".")[0], name.lower()}:
            return resource, resource not in CLUSTER_SCOPED
    return None


def _wanted_of_timeline(subject: ObjectRef, objects: Objects, spec: TimelineSpec) -> RecordQuery:
    """Raises 400."""
    try:
        return asked.wanted(subject, objects, spec)
    except asked.BadQuestion as error:
        raise bad_request(str(error)) from None


def _more_of_timeline(evidence: Evidence, spec: TimelineSpec) -> RecordQuery | None:
    return timeline_wanted.wanted_more(evidence, asked.spec_of(spec, now_ns=evidence.now_ns))


def _timeline(evidence: Evidence, spec: TimelineSpec, kept: KeptCluster) -> msgspec.Struct:
    return asked.answer(evidence, spec)


def _coupled(evidence: Evidence, spec: CouplingSpec, kept: KeptCluster) -> msgspec.Struct:
    """Raises 404 for a controller that does not exist, and for an object of which nothing is known."""
    if not spec.controller and not _is_known(evidence):
        raise no_such_subject(evidence.subject)
    try:
        return coupling_answer.answer(evidence, spec)
    except coupling_answer.UnknownActor as error:
        raise ApiError(404, "NotFound", str(error)) from None


# Kind of question -> who answers it.
ANSWERS: dict[str, AnswerFunctions] = {
    EXPLANATIONS: AnswerFunctions(_wanted, _explained),
    TIMELINES: AnswerFunctions(_wanted_of_timeline, _timeline, _more_of_timeline),
    COUPLINGS: AnswerFunctions(coupling_answer.wanted, _coupled),
}
