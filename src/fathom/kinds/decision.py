"""Decision: one recorded decision of a controller, the scheduler, an agent or the gateway, and its outcomes.

It is answered from the journals, never stored: `ask/`.

Its name is the decision's id, its namespace that of its subject; `fathom-system` for nodes and other subjects
without one.
"""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import KEEPS_UNKNOWN_FIELDS, Count
from fathom.kinds.shape import Meta, Shape
from fathom.model.column import Column


class DecisionSubject(Shape, frozen=True):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    generation: Count = 0


class DecisionSpec(Shape, frozen=True):
    """What was decided, and from what. It has more fields: those of `model/decision.py`."""

    controller: str = ""
    subject: DecisionSubject = DecisionSubject()
    object: str = ""  # 'pods/web-1'
    verdict: str = ""
    time: str = ""
    message: str = ""


class DecisionStatus(Shape, frozen=True):
    """What came of it, and each node's reason: for users that may read nodes; for others, counts."""

    process: str = ""  # The process that has it on record.
    result: str = ""  # Of the last outcome.


class Decision(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[DecisionSpec, KEEPS_UNKNOWN_FIELDS] = DecisionSpec()
    status: Annotated[DecisionStatus, KEEPS_UNKNOWN_FIELDS] = DecisionStatus()


DEFINITION = KindDefinition(
    shape=Decision,
    plural="decisions",
    namespaced=True,
    columns=(
        Column("Object", "string", ".spec.object"),
        Column("Controller", "string", ".spec.controller"),
        Column("Verdict", "string", ".spec.verdict"),
        Column("Result", "string", ".status.result"),
        Column("Node", "string", ".spec.node", priority=1),
        Column("Cause", "string", ".spec.cause.text", priority=1),
        Column("Message", "string", ".spec.message", priority=1),
    ),
    selectable=("spec.controller", "spec.subject.name", "spec.subject.resource", "spec.verdict"),
    verbs=("get", "list"),
    asks=True,
    view_role_reads=True,
)
DECISIONS = DEFINITION.resource
