"""Whose a field is: `metadata.managedFields`, as server-side apply writes and reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fathom.model.body import decode_json
from fathom.model.media_types import APPLY_PATCH
from fathom.model.objects import Obj, metadata, uid_of
from fathom.sim.checkers.store_history import asked_of
from fathom.sim.world.invariants import Checker, Found, Seen

Path = tuple[str, ...]
Owner = tuple[str, str, str]  # Manager, operation, subresource.
IDENTITY = frozenset({("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")})
ABSENT = object()


class FieldsKeepTheirOwners(Checker):
    """A field that a write leaves as it was stays the field of everybody whose it was: only who applies may
    give up fields of their own, by leaving them out. And who applies owns what they have applied. Only fields
    of objects are looked at, not those of items of lists."""

    name = "a field keeps its owners while it stays as it is"

    def commit(self, change: Seen) -> Found:
        old, new, ask = change.old, change.new, change.ask
        if new is None or ask is None:
            return None
        before = _owned(old) if old is not None and uid_of(old) == uid_of(new) else {}
        request = asked_of(ask.target)
        applies = dict(ask.headers).get("content-type") == APPLY_PATCH
        body = decode_json(ask.body) if isinstance(ask.body, bytes) and ask.body else ask.body
        if request is None or (not before and not applies) or request.resource != change.resource:
            return None
        if not applies and isinstance(body, dict) and "managedFields" in (body.get("metadata") or {}):
            return None  # Who sends them may change them.
        by: Owner | None = None
        after = _owned(new)
        if applies and request.name == change.key.name:
            by = (request.query.get("fieldManager", ""), "Apply", request.subresource)
            own = after.get(by, set())
            lacks = next((path for path in _leaves(body) if not _is_within(path, own)), None)
            if lacks is not None and isinstance(body, dict) and _at(new, lacks) is not ABSENT:
                return f"{by[0]} applied {'.'.join(lacks)} of {change.path}, and does not own it"
        return self._lost(change, before, after, by)

    def _lost(
        self, change: Seen, before: dict[Owner, set[Path]], after: dict[Owner, set[Path]], by: Owner | None
    ) -> Found:
        for owner, paths in before.items():
            if owner == by:
                continue
            for path in sorted(paths - after.get(owner, set())):
                value = _at(change.old, path)
                if value is not ABSENT and value == _at(change.new, path):
                    field = f"{'.'.join(path)} of {change.path}"
                    return f"{change.by} left {field} as it was, and {owner[0]} lost it"
        return None


def _owned(obj: Obj | None) -> dict[Owner, set[Path]]:
    owned: dict[Owner, set[Path]] = {}
    for entry in metadata(obj or {}).get("managedFields") or ():
        owner = (entry.get("manager", ""), entry.get("operation", ""), entry.get("subresource", ""))
        owned.setdefault(owner, set()).update(_paths(entry.get("fieldsV1") or {}))
    return owned


def _paths(fields: Obj, above: Path = ()) -> Iterator[Path]:
    """The fields without fields of their own. 'f:' begins the name of a field; others are items of lists."""
    for name, below in fields.items():
        if name.startswith("f:"):
            path = (*above, name[2:])
            if below:
                yield from _paths(below, path)
            else:
                yield path


def _leaves(body: Any, above: Path = ()) -> Iterator[Path]:
    """The fields of an applied object that are no objects; those of its identity belong to nobody."""
    if not isinstance(body, dict):
        return
    for name, value in body.items():
        path = (*above, name)
        if isinstance(value, dict):
            yield from _leaves(value, path)
        elif not isinstance(value, list) and value is not None and path not in IDENTITY:
            yield path


def _is_within(path: Path, owned: set[Path]) -> bool:
    """Some objects, such as selectors, are owned as a whole."""
    return any(path[:length] in owned for length in range(1, len(path) + 1))


def _at(obj: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(obj, dict) or name not in obj:
            return ABSENT
        obj = obj[name]
    return obj
