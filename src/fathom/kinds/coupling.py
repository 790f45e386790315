"""Coupling: who can change the inputs of an object's decisions without calling its controller.

It is answered, never stored: `ask/`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition
from fathom.kinds.question import Answered, AskedObject
from fathom.kinds.schema import REQUIRED, field_schema
from fathom.kinds.shape import Meta, Shape


class CouplingSpec(Shape, frozen=True):
    subject: Annotated[AskedObject, field_schema("Or `controller`.")] = AskedObject()
    controller: Annotated[str, field_schema("Ask about a controller, not an object.", maxLength=253)] = ""
    at: Annotated[str, field_schema("A revision or an RFC 3339 time.", maxLength=64)] = ""
    field: Annotated[str, field_schema("Only this field: spec.replicas.", maxLength=512)] = ""


class Coupling(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[CouplingSpec, REQUIRED] = CouplingSpec()
    status: Answered = msgspec.field(default_factory=dict)


DEFINITION = KindDefinition(
    shape=Coupling,
    plural="couplings",
    namespaced=True,
    verbs=("create", "get"),
    asks=True,
    view_role_reads=True,
)
COUPLINGS = DEFINITION.resource
