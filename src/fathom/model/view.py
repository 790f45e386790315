"""How admission, authorization and rules of kinds read the cluster: a synchronous view of current objects.

Between two reads without an `await` the view does not change. It finds candidates; what must still be true
at the commit needs a precondition on the entry's revision.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fathom.model.objects import Key, Obj


class Seen:
    """One object as the view has it, with the revision it was last written at."""

    __slots__ = ("obj", "revision")

    def __init__(self, obj: Obj, revision: int) -> None:
        self.obj = obj
        self.revision = revision


class View(Protocol):
    """Resources are named as kubectl names them in full: 'pods', 'deployments.apps'."""

    def get(self, resource: str, key: Key) -> Seen | None: ...

    def list(self, resource: str, namespace: str | None = None) -> Iterable[Seen]:
        """In key order; all namespaces unless one is named."""
        ...

    def revision(self, resource: str) -> int:
        """The revision of the last change to any object of the resource; grows with each."""
        ...


class Resources(Protocol):
    """The kinds that exist and their paths, for code that handles objects of any kind."""

    def path(self, resource: str, namespace: str, name: str = "") -> str | None:
        """The path of an object or a collection; None for an unknown resource."""
        ...

    def named(self, api_version: str, kind: str) -> str | None:
        """The resource that an owner reference names."""
        ...

    def is_namespaced(self, resource: str) -> bool: ...

    def all_namespaced(self) -> list[str]:
        """Stored, deletable resources that live in namespaces, in a fixed order."""
        ...
