"""Requests of one process overtake each other on their way: the older one must not undo what the newer one
wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fathom.model.objects import Key, Obj, uid_of
from fathom.model.well_known import DECISION_HEADER
from fathom.sim.world.invariants import Checker, Found, Seen

OF_THE_SERVER = frozenset({"resourceVersion", "managedFields", "generation"})


class _Write(msgspec.Struct, frozen=True):
    sent_s: float
    old: Obj
    new: Obj


class OlderWritesUndoNothing(Checker):
    """Of the writes of one process to one object, each by a decision: one that was sent earlier and arrives
    later changes no field that the other one changed."""

    name = "an older write undoes no newer one of its sender"

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str, Key], _Write] = {}  # By sender, resource, object.

    def commit(self, change: Seen) -> Found:
        old, new, sent_s = change.old, change.new, change.sent_s
        if old is None or new is None or sent_s is None or not _is_about_it(change):
            return None
        place = (change.by, change.resource, change.key)
        newest = self._newest.get(place)
        if newest is None or sent_s >= newest.sent_s or uid_of(newest.new) != uid_of(new):
            self._newest[place] = _Write(sent_s, old, new)
            return None
        undone = sorted(set(_changed(old, new)) & set(_changed(newest.old, newest.new)))
        if not undone:
            return None
        ago_s = change.at_s - sent_s
        return f"{change.by} wrote {undone[0]} of {change.path} {ago_s:.0f} s ago, and something newer since"


def _is_about_it(change: Seen) -> bool:
    """By a decision, and about this object: the server writes others, ledgers for example, in the same
    commit."""
    if change.ask is None or change.ask.method not in {"PUT", "PATCH"}:
        return False
    place = f"/{change.resource.partition('.')[0]}/{change.key.name}"
    path = change.ask.target.partition("?")[0]
    return bool(dict(change.headers).get(DECISION_HEADER)) and f"{place}/" in f"{path}/"


def _changed(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Paths of the values that differ."""
    if before == after:
        return
    before, after = _named(before), _named(after)
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield path
        return
    for name in before.keys() | after.keys():
        if path != "metadata" or name not in OF_THE_SERVER:
            yield from _changed(before.get(name), after.get(name), f"{path}.{name}" if path else name)


def _named(value: Any) -> Any:
    """Conditions and the like by their type or name: each has its own writers."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return value
    names = [str(item.get("type") or item.get("name") or number) for number, item in enumerate(value)]
    return dict(zip(names, value, strict=True))
