"""Explanation: why an object is as it is, and a change that would help.

It is answered, never stored: `ask/`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition
from fathom.kinds.question import Answered, AskedObject, Subject
from fathom.kinds.schema import field_schema, one_of
from fathom.kinds.shape import Meta, Shape
from fathom.model.column import Column


class ExplanationSpec(Shape, frozen=True):
    subject: Subject = AskedObject()
    at: Annotated[
        str,
        field_schema(
            "A revision, an RFC 3339 time, or a duration before now such as 10m: explain the object as it "
            "was then. Absent: as it is now.",
            maxLength=64,
        ),
    ] = ""
    what_if: Annotated[
        tuple[str, ...],
        field_schema(
            "Changes to assume, each as KIND/NAME=PATCH, with a JSON merge patch. Nothing is written.",
            maxItems=16,
        ),
    ] = ()
    view: Annotated[
        str,
        one_of("", "status", "stuck"),
        field_schema(
            "Absent: why the object is as it is. status: the debug view of a workload. stuck: what is not as "
            "wanted in a Namespace, or everywhere without a name."
        ),
    ] = ""


class Explanation(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[ExplanationSpec, field_schema("The question.", required=True)] = ExplanationSpec()
    status: Annotated[
        Answered,
        field_schema(
            "The answer: summary, cause, a change that would help, and more. docs/why.md lists its fields."
        ),
    ] = msgspec.field(default_factory=dict)


DEFINITION = KindDefinition(
    shape=Explanation,
    about="Why an object is as it is, and a change that would help. It is answered and never stored: `kubectl"
    " get explanation pod.web-1 -o yaml`.",
    plural="explanations",
    namespaced=True,
    columns=(Column("Summary", "string", ".status.summary"),),
    verbs=("create", "get"),
    asks=True,
    view_role_reads=True,
)
EXPLANATIONS = DEFINITION.resource
