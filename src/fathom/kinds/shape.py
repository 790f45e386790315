"""What all kinds of fathom.dev have in common, and how an object becomes a Struct."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from fathom.kinds.schema import Count, Name, Time, field_schema, one_of
from fathom.model.objects import Key, Obj

GROUP, VERSION = "fathom.dev", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
# Of the kinds that are answered and never stored, in a cluster that fathom is attached to: there CRDs have
# GROUP, and one server serves all of a group's version.
ASK_GROUP = f"ask.{GROUP}"

T = TypeVar("T")


class Shape(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Unknown fields are ignored: a newer server may have more of them."""


class Meta(Shape, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class Condition(Shape, frozen=True):
    type: Annotated[
        str, field_schema("What the condition is about, in CamelCase. Each type occurs once.")
    ] = ""
    status: Annotated[
        str,
        one_of("True", "False", "Unknown"),
        field_schema("Whether the condition holds: True, False or Unknown."),
    ] = "Unknown"
    observed_generation: Annotated[
        Count,
        field_schema(
            "The generation that the condition describes: of this object, or in a WorkloadProgress of the"
            " workload. Absent: the condition does not depend on a generation."
        ),
    ] = 0
    last_transition_time: Annotated[Time, field_schema("When status last changed.")] = ""
    reason: Annotated[
        str, field_schema("Why the condition has this status, in one word; programs compare it.")
    ] = ""
    message: Annotated[str, field_schema("The same for people, with details. May be empty.")] = ""


_TYPE_AND_STATUS = msgspec.Meta(extra_json_schema={"required": ["type", "status"]})
_ONE_PER_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
Conditions = Annotated[
    tuple[Annotated[Condition, _TYPE_AND_STATUS], ...], field_schema(maxItems=None, **_ONE_PER_TYPE)
]
ObservedGeneration = Annotated[
    Count,
    field_schema(
        "The metadata.generation that this status describes. If it is lower than the present one, nobody has"
        " acted on the newest spec yet."
    ),
]


class ObjectRef(Shape, frozen=True):
    api_version: Annotated[
        str,
        field_schema("Its group and version, such as apps/v1."),
    ] = ""
    kind: Annotated[Name, field_schema("Its kind, such as Deployment.", required=True)] = ""
    namespace: Annotated[str, field_schema("Its namespace, if it has one.")] = ""
    name: Annotated[Name, field_schema("Its name.", required=True)] = ""
    uid: Annotated[
        str,
        field_schema("Its UID, which tells it from a later object of the same name."),
    ] = ""


def read(shape: type[T], obj: Obj) -> T:
    """The object as its struct. Raises ValueError (msgspec.ValidationError) for an object that fathom's
    server would not store: a controller that follows other servers reports it in a condition."""
    return msgspec.convert(obj, shape, strict=False)
