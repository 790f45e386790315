"""Coupling: who can change the inputs of an object's decisions without calling its controller.

It is answered, never stored: `ask/`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition
from fathom.kinds.question import Answered, AskedObject
from fathom.kinds.schema import field_schema
from fathom.kinds.shape import Meta, Shape
from fathom.model.column import Column


class CouplingSpec(Shape, frozen=True):
    subject: Annotated[
        AskedObject,
        field_schema("The object whose inputs the question is about. Set either subject or controller."),
    ] = AskedObject()
    controller: Annotated[
        str,
        field_schema(
            "The controller that the question is about, such as autoscaling. *: what every one declares.",
            maxLength=253,
        ),
    ] = ""
    at: Annotated[
        str,
        field_schema(
            "As of when: a revision, an RFC 3339 time, or a duration before now such as 10m. Absent: now.",
            maxLength=64,
        ),
    ] = ""
    field: Annotated[
        str, field_schema("Only this field of the object: spec.replicas. Absent: all fields.", maxLength=512)
    ] = ""


class Coupling(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[CouplingSpec, field_schema("The question.", required=True)] = CouplingSpec()
    status: Annotated[
        Answered,
        field_schema("The answer: inputs, who writes each, and links. docs/coupling.md lists its fields."),
    ] = msgspec.field(default_factory=dict)


DEFINITION = KindDefinition(
    shape=Coupling,
    about="Who can change the inputs of an object's decisions without calling its controller. It is answered"
    " and never stored: `kubectl get coupling deployment.web -o yaml`.",
    plural="couplings",
    namespaced=True,
    columns=(Column("Summary", "string", ".status.summary"),),
    verbs=("create", "get"),
    asks=True,
    view_role_reads=True,
)
COUPLINGS = DEFINITION.resource
