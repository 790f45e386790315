"""The table of questions: which functions of `explain/` answer which kind.

A question takes two pure steps around the collecting: `wanted` says which records are needed, `answer` makes
the status from all the evidence. Both run in a thread: they may take as long as a scheduling pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fathom.explain import pod_answer
from fathom.explain.evidence import Evidence, ObjectRef, Objects, RecordQuery
from fathom.kinds.coupling import COUPLINGS, CouplingSpec
from fathom.kinds.explanation import EXPLANATIONS, ExplanationSpec
from fathom.kinds.timeline import TIMELINES, TimelineSpec

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

# Kind of question -> who answers it. A kind that is missing here is answered with 501.
ANSWERS: dict[str, AnswerFunctions] = {
    EXPLANATIONS: AnswerFunctions(pod_answer.wanted, pod_answer.answer),
}
