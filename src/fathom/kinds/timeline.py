"""Timeline: what happened around one object, with causes, in order.

It is answered, never stored: `ask/`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition
from fathom.kinds.question import Answered, AskedObject
from fathom.kinds.schema import REQUIRED, field_schema
from fathom.kinds.shape import Meta, Shape


class TimelineSpec(Shape, frozen=True):
    subject: Annotated[AskedObject, REQUIRED] = AskedObject()
    at: Annotated[
        str,
        field_schema(
            "The end of the timeline: a revision, an RFC 3339 time, or a duration before now such as 10m.",
            maxLength=64,
        ),
    ] = ""
    since: Annotated[
        str, field_schema("Its beginning: a duration such as 10m, or an RFC 3339 time.", maxLength=64)
    ] = ""
    fold: Annotated[bool, field_schema("Whether similar entries are shown as one, with a count.")] = True
    generation: Annotated[int, field_schema("Only this generation of the object.", minimum=0)] = 0


class Timeline(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[TimelineSpec, REQUIRED] = TimelineSpec()
    status: Answered = msgspec.field(default_factory=dict)


DEFINITION = KindDefinition(
    shape=Timeline,
    plural="timelines",
    namespaced=True,
    verbs=("create", "get"),
    asks=True,
    view_role_reads=True,
)
TIMELINES = DEFINITION.resource
