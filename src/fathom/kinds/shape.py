"""What all kinds of fathom.dev have in common, and how an object becomes a Struct."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from fathom.kinds.schema import REQUIRED, Count, Name, Time, field_schema, one_of
from fathom.model.objects import Key, Obj

GROUP, VERSION = "fathom.dev", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

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
    type: str = ""
    status: Annotated[str, one_of("True", "False", "Unknown")] = "Unknown"
    observed_generation: Count = 0
    last_transition_time: Time = ""
    reason: str = ""
    message: str = ""


_TYPE_AND_STATUS = msgspec.Meta(extra_json_schema={"required": ["type", "status"]})
_ONE_PER_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
Conditions = Annotated[
    tuple[Annotated[Condition, _TYPE_AND_STATUS], ...], field_schema(maxItems=None, **_ONE_PER_TYPE)
]


class ObjectRef(Shape, frozen=True):
    api_version: str = ""
    kind: Annotated[Name, REQUIRED] = ""
    namespace: str = ""
    name: Annotated[Name, REQUIRED] = ""
    uid: str = ""


def read(shape: type[T], obj: Obj) -> T:
    """The object as its struct. Raises ValueError (msgspec.ValidationError) for an object that fathom's
    server would not store: a controller that follows other servers reports it in a condition."""
    return msgspec.convert(obj, shape, strict=False)
