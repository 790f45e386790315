"""Retry policy as pure functions: how long to wait, and when to stop trying.

Of the seven properties of a useful retry, these are three: bounded attempts, backoff with jitter, deadline.
The others belong to the loop (a fresh read each time, a reasoned status) and to the commit (idempotent, by a
stable identity).
"""

from __future__ import annotations

import random

import msgspec

from fathom.model.backoff import Backoff


class Retry(msgspec.Struct, frozen=True):
    """Doubling from 50 ms, so that a lost race costs little; capped where a person would look again."""

    backoff_s_min: float = 0.05
    backoff_s_max: float = 30.0
    # 50 ms doubled 9 times is past the cap: some 20 s of quick tries, then 10 slow ones, about 5 minutes.
    attempts_max: int = 20
    # After this the intent is taken to need a person's attention, however few attempts there were.
    deadline_s: float = 600.0


FOREVER = Retry(attempts_max=2**62, deadline_s=float("inf"))


class RetryTrouble(msgspec.Struct, frozen=True):
    """The failures of a key that keeps failing. Ends with the first success, or with a new intent."""

    intent: str  # What was attempted (an object's UID and generation): another intent starts anew.
    attempts: int
    since_ns: int
    reason: str
    message: str
    next_ns: int | None  # When it is retried; None: given up, only a change wakes it.

    @property
    def given_up(self) -> bool:
        return self.next_ns is None


def backoff_ns(policy: Retry, attempts: int, rng: random.Random) -> int:
    """The wait before the next try, after this many failed ones."""
    return round(Backoff(policy.backoff_s_min, policy.backoff_s_max).jittered_s(attempts, rng) * 1e9)


def next_trouble(
    policy: Retry,
    before: RetryTrouble | None,
    *,
    intent: str,
    reason: str,
    message: str,
    now_ns: int,
    delay_ns: int,
    counts: bool = True,
) -> RetryTrouble:
    """Counts one more failure. An intent that was given up does not start again."""
    if before is not None and before.intent != intent:
        before = None
    attempts = before.attempts + counts if before else 1
    since_ns = before.since_ns if before else now_ns
    over = attempts >= policy.attempts_max or now_ns + delay_ns - since_ns > policy.deadline_s * 1e9
    return RetryTrouble(intent, attempts, since_ns, reason, message, None if over else now_ns + delay_ns)
