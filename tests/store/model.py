"""The obvious store: a copy of everything at every revision. Slow, and easy to believe."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.store.protocol import Change, Committed, Conflict, Entry, Expect, Outcome, Page, Put, Write

State = dict[str, Entry]


class Model:
    def __init__(self, revision: int) -> None:
        self.first = self.floor = self.revision = revision
        self.states: dict[int, State] = {revision: {}}
        self.changes: list[Change] = []

    @property
    def now(self) -> State:
        return self.states[self.revision]

    def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        for expect in preconditions:
            found = self.now.get(expect.key)
            if (found.revision if found else 0) != expect.revision:
                current = {one.key: self.now.get(one.key) for one in preconditions}
                return Conflict(current, self.revision)
        state, revision = dict(self.now), self.revision + 1
        changes = []
        for write in writes:
            old = state.pop(write.key, None)
            new = None
            if isinstance(write, Put):
                new = Entry(write.key, write.body, revision, old.created if old else revision)
                state[write.key] = new
            if old or new:
                changes.append(Change(write.key, revision, new, old))
        if changes:
            self.revision = revision
            self.states[revision] = state
            self.changes += changes
        return Committed(self.revision)

    def range(self, prefix: str, revision: int, limit: int, after: str) -> Page:
        state = self.states[revision]
        found = [state[key] for key in sorted(state) if key.startswith(prefix) and key > after]
        shown = found[:limit] if limit else found
        left = len(found) - len(shown)
        return Page(tuple(shown), revision, more=left > 0, remaining=left)

    def changes_after(self, prefix: str, revision: int) -> list[Change]:
        return [c for c in self.changes if c.revision > revision and c.key.startswith(prefix)]

    def compact(self, revision: int) -> None:
        self.floor = max(self.floor, revision)
