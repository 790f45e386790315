"""An object as users name it on the command line: KIND/NAME, with a namespace beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fathom.cli.problem import Problem

if TYPE_CHECKING:
    from fathom.model.decision import Subject

CLUSTER_KINDS = frozenset({"node", "nodes", "no", "namespace", "namespaces", "ns"})


class ObjectReference(msgspec.Struct, frozen=True):
    kind: str
    namespace: str
    name: str

    def matches(self, subject: Subject) -> bool:
        from fathom.cli.ask.why import is_of  # noqa: PLC0415  # See the package's docstring.

        same_place = self.kind in CLUSTER_KINDS or subject.namespace in {"", self.namespace}
        return subject.name == self.name and same_place and is_of(self.kind, subject.resource)

    def __str__(self) -> str:
        return f"{self.kind} {'' if self.kind in CLUSTER_KINDS else f'{self.namespace}/'}{self.name}"


def object_reference(text: str, namespace: str) -> ObjectReference:
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise Problem(f"name the object as KIND/NAME, for example pod/web-1, not {text!r}")
    return ObjectReference(kind.lower(), namespace, name)


def duration_s(text: str, option: str) -> float:
    from fathom.model.times import SECOND_NS, duration_ns  # noqa: PLC0415

    parsed_ns = duration_ns(text)
    if parsed_ns is None or parsed_ns <= 0:
        raise Problem(f"{option} must be a duration, for example 90s, 10m or 2h, not {text!r}")
    return parsed_ns / SECOND_NS
