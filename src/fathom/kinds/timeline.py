"""Timeline: what happened around one object, with causes, in order.

It is answered, never stored: `ask/`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition
from fathom.kinds.question import Answered, AskedObject, Subject
from fathom.kinds.schema import field_schema
from fathom.kinds.shape import Meta, Shape


class TimelineSpec(Shape, frozen=True):
    subject: Subject = AskedObject()
    at: Annotated[
        str,
        field_schema(
            "The end of the timeline: a revision, an RFC 3339 time, or a duration before now such as 10m."
            " Absent: now.",
            maxLength=64,
        ),
    ] = ""
    since: Annotated[
        str,
        field_schema(
            "Its beginning: a duration before now such as 10m, or an RFC 3339 time. Absent: as early as is"
            " known.",
            maxLength=64,
        ),
    ] = ""
    fold: Annotated[
        bool, field_schema("Whether similar entries are shown as one, with a count. Default: true.")
    ] = True
    generation: Annotated[
        int,
        field_schema(
            "Only the time of this generation of the object, until the next one. 0: all of it.", minimum=0
        ),
    ] = 0


class Timeline(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[TimelineSpec, field_schema("The question.", required=True)] = TimelineSpec()
    status: Annotated[
        Answered,
        field_schema("The answer: what happened, in order, with causes. docs/timelines.md describes it."),
    ] = msgspec.field(default_factory=dict)


DEFINITION = KindDefinition(
    shape=Timeline,
    about="What happened around one object, in order, with what caused what. It is answered and never stored:"
    " `kubectl get timeline pod.web-1 -o yaml`.",
    plural="timelines",
    namespaced=True,
    verbs=("create", "get"),
    asks=True,
    view_role_reads=True,
)
TIMELINES = DEFINITION.resource
