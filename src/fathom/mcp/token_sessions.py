"""How many sessions each token has: those of one caller leave room for others'. Pure but for its clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

SESSIONS_PER_TOKEN = 16
IDLE_S = 600.0  # A session that nobody used for so long ends.


class TokenSessions:
    """Tokens are known by their digests, sessions by their ids. What is idle is forgotten."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._used_s: dict[tuple[str, str], float] = {}  # (token, session) -> when it was last used
        self._beginning: Counter[str] = Counter()  # Sessions that are asked for, and have no id yet.

    def may_begin(self, token: str) -> bool:
        idle_since_s = self._now_s() - IDLE_S
        self._used_s = {key: used_s for key, used_s in self._used_s.items() if used_s > idle_since_s}
        open_now = sum(whose == token for whose, _ in self._used_s)
        return open_now + self._beginning[token] < SESSIONS_PER_TOKEN

    def begin(self, token: str) -> None:
        self._beginning[token] += 1

    def begun(self, token: str, session: str) -> None:
        """`session` '': it was refused."""
        self._beginning[token] -= 1
        if not self._beginning[token]:
            del self._beginning[token]
        if session:
            self._used_s[token, session] = self._now_s()

    def used(self, token: str, session: str) -> None:
        """A client may name any session: only those that have begun count."""
        if (token, session) in self._used_s:
            self._used_s[token, session] = self._now_s()

    def ended(self, token: str, session: str) -> None:
        self._used_s.pop((token, session), None)
