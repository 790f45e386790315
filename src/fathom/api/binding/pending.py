"""A view that includes the writes of the commit being assembled, for the next bind in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fathom.api.ledger.accounts import key_in_store
from fathom.model.objects import Key, key_of
from fathom.model.view import Seen, View
from fathom.store.protocol import Put, Write


class Pending:
    """Objects that the commit changes, at the revision at which it expects them. The commit creates and
    removes none of the objects that are read through this view."""

    def __init__(self, view: View, writes: Mapping[str, Write]) -> None:
        self._view = view
        self._writes = writes

    def get(self, resource: str, key: Key) -> Seen | None:
        seen = self._view.get(resource, key)
        return None if seen is None else self._changed(resource, seen)

    def list(self, resource: str, namespace: str | None = None) -> Iterable[Seen]:
        return (self._changed(resource, seen) for seen in self._view.list(resource, namespace))

    def revision(self, resource: str) -> int:
        return self._view.revision(resource)

    def _changed(self, resource: str, seen: Seen) -> Seen:
        write = self._writes.get(key_in_store(resource, key_of(seen.obj)))
        return Seen(write.body.obj, seen.revision) if isinstance(write, Put) else seen
