"""Committed updates, as an observer in the API server is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class ObjectUpdate(msgspec.Struct, frozen=True):
    """One committed update of one object."""

    resource: str
    namespace: str
    name: str
    uid: str
    actor: str  # The part of fathom that wrote; '': a user.
    user: str
    user_agent: str
    changes: Sequence[tuple[str, Any, Any]]  # Field path, value before, value after: see `model/fields.py`.
    owned: bool = False  # Another object controls it.


class ObjectLife(msgspec.Struct, frozen=True):
    """One object that was created, or that somebody began to delete."""

    resource: str
    namespace: str
    name: str
    uid: str
    actor: str  # As in ObjectUpdate.
    user: str
    user_agent: str
    owner: str = ""  # UID of the object that controls it.
    generate_name: str = ""


class UpdateObserver(Protocol):
    """Called in the request, after the commit: it must take microseconds, and never raise."""

    def wants(self, resource: str) -> bool: ...

    def updated(self, update: ObjectUpdate) -> None: ...

    def created(self, life: ObjectLife) -> None: ...

    def deleted(self, life: ObjectLife) -> None:
        """Once for each object, at the first request to delete it."""
        ...
