"""The table of questions: which functions of `explain/` answer which kind.

A question takes two pure steps around the collecting: `wanted` says which records are needed, `answer` makes
the status from all the evidence. Both run in a thread: they may take as long as a scheduling pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fathom.explain import questions
from fathom.explain.coupling import answer as coupling_answer
from fathom.explain.evidence import Evidence, ObjectRef, Objects, RecordQuery
from fathom.explain.status import NoSubject
from fathom.explain.timeline import asked
from fathom.explain.timeline import wanted as timeline_wanted
from fathom.explain.why.what_if import BadPatch, read_patch, what_if
from fathom.explain.why_of.kinds import NoExplanation
from fathom.explain.why_of.lookups import CLUSTER_SCOPED, KIND_NAMES
from fathom.kinds.coupling import COUPLINGS, CouplingSpec
from fathom.kinds.explanation import EXPLANATIONS, ExplanationSpec
from fathom.kinds.timeline import TIMELINES, TimelineSpec
from fathom.model.errors import ApiError, bad_request, not_found
from fathom.schedule.loop.user_rules import installed_rules

Spec = ExplanationSpec | TimelineSpec | CouplingSpec


class AnswerFunctions(msgspec.Struct, frozen=True):
    wanted: Callable[[ObjectRef, Objects, Any], RecordQuery]
    answer: Callable[[Evidence, Any], msgspec.Struct]
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


def _explained(evidence: Evidence, spec: ExplanationSpec) -> msgspec.Struct:
    """Raises 400 for a kind that has no explanation, 404 for an object of which nothing is known."""
    subject = evidence.subject
    try:
        patches = [read_patch(text, subject.namespace, _resource_of) for text in spec.what_if]
        answer = questions.answer(what_if(evidence, patches), view=spec.view, rules=installed_rules())
    except (BadPatch, NoExplanation) as error:
        raise bad_request(str(error)) from None
    except NoSubject:
        raise not_found(subject.resource, subject.name) from None
    exists = evidence.objects.get(subject.resource, subject.key) is not None
    if not exists and not evidence.decisions and not evidence.audit and not evidence.gaps:
        raise not_found(subject.resource, subject.name)
    return answer


def _resource_of(kind: str) -> tuple[str, bool] | None:
    """'node', 'Node', 'nodes', 'tenantquotas.fathom.dev': the resource, and whether it has namespaces."""
    wanted = kind.lower()
    for resource, name in KIND_NAMES.items():
        if wanted in {resource, resource.partition(".")[0], name.lower()}:
            return resource, resource not in CLUSTER_SCOPED
    return None


def _more_of_timeline(evidence: Evidence, spec: TimelineSpec) -> RecordQuery | None:
    return timeline_wanted.wanted_more(evidence, asked.spec_of(spec, now_ns=evidence.now_ns))


def _coupled(evidence: Evidence, spec: CouplingSpec) -> msgspec.Struct:
    """Raises 404 for a controller that does not exist."""
    try:
        return coupling_answer.answer(evidence, spec)
    except coupling_answer.UnknownActor as error:
        raise ApiError(404, "NotFound", str(error)) from None


# Kind of question -> who answers it.
ANSWERS: dict[str, AnswerFunctions] = {
    EXPLANATIONS: AnswerFunctions(_wanted, _explained),
    TIMELINES: AnswerFunctions(asked.wanted, asked.answer, _more_of_timeline),
    COUPLINGS: AnswerFunctions(coupling_answer.wanted, _coupled),
}
