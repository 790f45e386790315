"""However many pods the end of an override concerns, they are undone and woken a few at a time."""

from __future__ import annotations

from collections import deque

from fathom.model.objects import Key, Obj, is_deleting, lookup
from fathom.sim.checkers.decisions import pods_in_batch
from fathom.sim.checkers.override_effects import ACCOUNT, evicted_for
from fathom.sim.world.invariants import Checker, Found, Seen

# What the override controller does in one pass: accounts that it moves, pods that it evicts.
MOVED_AT_ONCE, EVICTED_AT_ONCE = 16, 3
WINDOW_S = 0.9  # Passes about one override are a second apart.
PASSES = 2  # In one window: of a leader that goes, and of the next one.
BOUND_AT_ONCE = 256  # Bindings in one request of a scheduler.


class UndoneAFewAtATime(Checker):
    name = "the end of an override undoes and wakes a few pods at a time"
    resources = frozenset({"pods"})

    def __init__(self) -> None:
        self._moved: deque[tuple[float, str]] = deque()  # When an account was moved, and of which override.
        self._leaving: dict[str, dict[Key, None]] = {}  # UID of an override -> pods that are evicted for it.

    def commit(self, change: Seen) -> Found:
        return self._bound(change) or self._evicted(change) or self._recharged(change)

    def _bound(self, change: Seen) -> Found:
        ask = change.ask
        if ask is None or not ask.target.partition("?")[0].endswith("/bindingbatches"):
            return None
        count = len(pods_in_batch(ask.body))
        return f"{change.by} binds {count} pods at once" if count > BOUND_AT_ONCE else None

    def _evicted(self, change: Seen) -> Found:
        uid = evicted_for(change.new or change.old)
        if not uid:
            return None
        leaving = self._leaving.setdefault(uid, {})
        if change.new is None or not is_deleting(change.new):
            leaving.pop(change.key, None)
            return None
        leaving[change.key] = None
        most = EVICTED_AT_ONCE * PASSES
        return f"{len(leaving)} pods leave at once for override {uid}" if len(leaving) > most else None

    def _recharged(self, change: Seen) -> Found:
        before, after = _override_of(change.old), _override_of(change.new)
        if not before or after or change.new is None:
            return None
        self._moved.append((change.at_s, before))
        while self._moved[0][0] < change.at_s - WINDOW_S:
            self._moved.popleft()
        count = sum(uid == before for _, uid in self._moved)
        most = MOVED_AT_ONCE * PASSES
        return f"{count} accounts of override {before} are moved within a second" if count > most else None


def _override_of(pod: Obj | None) -> str:
    parts = str(lookup(pod, "metadata", "annotations", ACCOUNT) or "").split("/")
    return parts[3] if len(parts) == 4 else ""
