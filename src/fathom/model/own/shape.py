"""What all kinds of fathom.dev have in common, and how an object becomes a struct."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from fathom.model.objects import Key, Obj

GROUP, VERSION = "fathom.dev", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

Amount = str | int | float  # A quantity on the wire: '100m', 2.

T = TypeVar("T")


class Shape(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Fields that a struct does not know are let pass: a newer server may have more of them."""


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
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str = ""


def read(shape: type[T], obj: Obj) -> T:
    """The object as its struct. Raises ValueError (msgspec.ValidationError) for what no server of ours
    stores: a controller that follows other servers says so in a condition."""
    return msgspec.convert(obj, shape, strict=False)


def wire(struct: Shape, kind: str) -> dict[str, Any]:
    """The struct as an object to send."""
    plain: dict[str, Any] = msgspec.to_builtins(struct)
    return {"apiVersion": API_VERSION, "kind": kind, **plain}
