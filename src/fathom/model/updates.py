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


class UpdateObserver(Protocol):
    """Called in the request, after the commit: it must take microseconds, and never raise."""

    def wants(self, resource: str) -> bool: ...

    def updated(self, update: ObjectUpdate) -> None: ...
