"""The work queue as one would explain it: lists, searched from the front. Slow, and obviously right."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from fathom.control.queue import Taken
from fathom.control.retry import Retry, RetryTrouble, backoff_ns
from fathom.model.cause import WakeCause


@dataclass
class Wait:
    key: str
    priority: int
    since_ns: int
    cause: WakeCause
    merged: int = 0


@dataclass
class Later:
    when_ns: int
    order: int
    cause: WakeCause
    priority: int


@dataclass
class ModelQueue:
    retry: Retry
    rng: random.Random
    now_ns: int = 0
    waits: list[Wait] = field(default_factory=list)  # Oldest first.
    hands: dict[str, Taken[str]] = field(default_factory=dict)
    later: dict[str, Later] = field(default_factory=dict)
    retries: dict[str, Later] = field(default_factory=dict)
    troubles: dict[str, RetryTrouble] = field(default_factory=dict)
    turns: dict[int, list[str]] = field(default_factory=dict)  # Priority -> tenants, next one first.
    armed: int = 0

    def add(self, key: str, cause: WakeCause, priority: int) -> None:
        for wait in self.waits:
            if wait.key == key:
                wait.merged += 1
                wait.priority = max(wait.priority, priority)
                self._line_up()
                return
        self.waits.append(Wait(key, priority, self.now_ns, cause))
        self._line_up()

    def add_after(self, key: str, delay_ns: int, cause: WakeCause, priority: int) -> None:
        if delay_ns <= 0:
            return self.add(key, cause, priority)
        return self._arm(self.later, key, delay_ns, cause, priority)

    def _arm(
        self, timers: dict[str, Later], key: str, delay_ns: int, cause: WakeCause, priority: int
    ) -> None:
        when_ns = self.now_ns + delay_ns
        if key not in timers or when_ns < timers[key].when_ns:
            self.armed += 1
            timers[key] = Later(when_ns, self.armed, cause, priority)

    def advance(self, to_ns: int) -> None:
        def when(timer: tuple[dict[str, Later], str]) -> tuple[int, int]:
            timers, key = timer
            return timers[key].when_ns, timers[key].order

        while armed := [(timers, key) for timers in (self.later, self.retries) for key in timers]:
            timers, key = min(armed, key=when)
            if timers[key].when_ns > to_ns:
                break
            due = timers.pop(key)
            self.now_ns = due.when_ns
            self.add(key, due.cause, due.priority)
        self.now_ns = to_ns

    def take(self) -> Taken[str] | None:
        order = self.order()
        if not order:
            return None
        wait = next(wait for wait in self.waits if wait.key == order[0])
        self.waits.remove(wait)
        self.turns[wait.priority].remove(tenant(wait.key))
        trouble = self.troubles.get(wait.key)
        taken = Taken(
            wait.key, wait.cause, wait.merged, self.now_ns - wait.since_ns, wait.priority,
            trouble.attempts + 1 if trouble else 1,
        )  # fmt: skip
        self.hands[wait.key] = taken
        self._line_up()
        return taken

    def done(self, key: str) -> None:
        del self.hands[key]
        self.troubles.pop(key, None)
        self.retries.pop(key, None)
        self._line_up()

    def failed(self, key: str, intent: str) -> None:
        taken = self.hands.pop(key)
        self._line_up()
        before = self.troubles.get(key)
        if before and before.intent != intent:
            before = None
        attempts = before.attempts + (taken.cause.kind != "event") if before else 1
        since_ns = before.since_ns if before else self.now_ns
        delay_ns = backoff_ns(self.retry, attempts, self.rng)
        too_late = self.now_ns + delay_ns - since_ns > self.retry.deadline_s * 1e9
        if attempts >= self.retry.attempts_max or too_late:
            self.troubles[key] = RetryTrouble(intent, attempts, since_ns, "Broken", "", None)
        else:
            self.troubles[key] = RetryTrouble(
                intent, attempts, since_ns, "Broken", "", self.now_ns + delay_ns
            )
            self._arm(self.retries, key, delay_ns, WakeCause("retry", "Broken"), taken.priority)

    def put_back(self, key: str, delay_ns: int, cause: WakeCause) -> None:
        taken = self.hands.pop(key)
        self._line_up()
        self.add_after(key, delay_ns, cause, taken.priority)

    def order(self) -> list[str]:
        found: list[str] = []
        for priority in sorted({wait.priority for wait in self._in_line()}, reverse=True):
            rows = {name: self._row(priority, name) for name in self.turns[priority]}
            while any(rows.values()):
                for row in rows.values():
                    if row:
                        found.append(row.pop(0))
        return found

    def _row(self, priority: int, name: str) -> list[str]:
        return [w.key for w in self._in_line() if (w.priority, tenant(w.key)) == (priority, name)]

    def _in_line(self) -> list[Wait]:
        return [wait for wait in self.waits if wait.key not in self.hands]

    def _line_up(self) -> None:
        """Tenants with somebody in line are in turn; those who come new are last."""
        for wait in self._in_line():
            turn = self.turns.setdefault(wait.priority, [])
            if tenant(wait.key) not in turn:
                turn.append(tenant(wait.key))
        for priority, turn in self.turns.items():
            turn[:] = [name for name in turn if self._row(priority, name)]


def tenant(key: str) -> str:
    return key[0]
