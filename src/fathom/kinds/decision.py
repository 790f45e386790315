"""Decision: one recorded decision of a controller, the scheduler, an agent or the gateway, and its outcomes.

It is answered from the journals, never stored: `ask/`.

Its name is the decision's id, its namespace that of its subject; `fathom-system` for nodes and other subjects
without one.
"""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import KEEPS_UNKNOWN_FIELDS, Count, field_schema
from fathom.kinds.shape import Meta, Shape
from fathom.model.column import Column


class DecisionSubject(Shape, frozen=True):
    resource: Annotated[str, field_schema("Its resource, such as pods or deployments.apps.")] = ""
    namespace: Annotated[str, field_schema("Its namespace. Empty: it has none.")] = ""
    name: Annotated[str, field_schema("Its name.")] = ""
    uid: Annotated[str, field_schema("Its UID. Absent: not known when it was decided.")] = ""
    generation: Annotated[
        Count, field_schema("Its metadata.generation when it was decided. Absent: it has none.")
    ] = 0


class DecisionSpec(Shape, frozen=True):
    """It has more fields: those of `model/decision.py`."""

    controller: Annotated[str, field_schema("Who decided, such as scheduler or replicasets.")] = ""
    subject: Annotated[DecisionSubject, field_schema("The object that it is about, as it was then.")] = (
        DecisionSubject()
    )
    object: Annotated[str, field_schema("The same in one word, such as pods/web-1.")] = ""
    verdict: Annotated[
        str, field_schema("What was decided, in one word: bind, create, delete, hold, unschedulable, ...")
    ] = ""
    time: Annotated[str, field_schema("When it was decided, by the clock of the deciding process.")] = ""
    message: Annotated[str, field_schema("Why, for people.")] = ""


class DecisionStatus(Shape, frozen=True):
    """It has more fields: `ask/decisions.py`."""

    process: Annotated[str, field_schema("The process that has the decision on record.")] = ""
    result: Annotated[
        str,
        field_schema(
            "The last outcome: committed, conflict, rejected, unknown, settled (unknown, then found by a"
            " read) or held. Empty: nothing was to be written, or no outcome is on record."
        ),
    ] = ""


class Decision(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        DecisionSpec,
        KEEPS_UNKNOWN_FIELDS,
        field_schema(
            "What was decided, and from what: also cause, attempt, seen revisions, policies, overrides,"
            " quotas and scores."
        ),
    ] = DecisionSpec()
    status: Annotated[
        DecisionStatus,
        KEEPS_UNKNOWN_FIELDS,
        field_schema(
            "What came of it: also every outcome, and each node's reason, or counts for users who may not"
            " read nodes."
        ),
    ] = DecisionStatus()


DEFINITION = KindDefinition(
    shape=Decision,
    about="One recorded decision of the scheduler, a controller, an agent or the gateway, with its outcomes."
    " Its name is the decision's id. The processes that decided keep it; it is never stored.",
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
