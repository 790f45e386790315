"""Explanation: why an object is as it is, and a change that would help.

It is answered, never stored: `ask/`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition
from fathom.kinds.question import Answered, AskedObject
from fathom.kinds.schema import REQUIRED, field_schema, one_of
from fathom.kinds.shape import Meta, Shape


class ExplanationSpec(Shape, frozen=True):
    subject: Annotated[AskedObject, REQUIRED] = AskedObject()
    at: Annotated[
        str,
        field_schema(
            "A revision, an RFC 3339 time, or a duration before now such as 10m: explain the object as it "
            "was then.",
            maxLength=64,
        ),
    ] = ""
    what_if: Annotated[
        tuple[str, ...],
        field_schema("Changes to assume, each as KIND/NAME=PATCH. Nothing is written.", maxItems=16),
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
    spec: Annotated[ExplanationSpec, REQUIRED] = ExplanationSpec()
    status: Answered = msgspec.field(default_factory=dict)


DEFINITION = KindDefinition(
    shape=Explanation,
    plural="explanations",
    namespaced=True,
    verbs=("create", "get"),
    asks=True,
    view_role_reads=True,
)
EXPLANATIONS = DEFINITION.resource
