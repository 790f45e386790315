"""Sessions of the web page and the one-time codes that begin them. In memory: a restart ends them all.

    code (10 minutes, once) ─┐
    token ───────────────────┴─> session: a cookie and a key, both needed ──> ends: 12 h, 1 h unused, by hand,
                                                                              or when its credential is void

A cookie goes to every port of a host, a key in the page's storage only to the page's own address: so a
request must show both. Only digests of secrets are kept. Time and randomness come from outside.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

import msgspec

from fathom.api.auth.credentials import Credential
from fathom.model.errors import ApiError, too_many_requests
from fathom.model.times import SECOND_NS
from fathom.seams.outside import Clock

CODE_S = 600
SESSION_S = 12 * 3600
UNUSED_S = 3600
CODES_MAX = 200  # Of all users; one user's are few, because the oldest of them is dropped.
CODES_OF_USER_MAX = 5
SESSIONS_MAX = 1_000  # Some KiB each.
SESSIONS_OF_USER_MAX = 20
TEXT_MAX = 200  # Characters of a browser's name for itself.


class Code(msgspec.Struct, frozen=True):
    credential: Credential
    allow_changes: bool
    until_ns: int


class Session(msgspec.Struct):
    id: str  # No secret: for lists, and for ending it.
    credential: Credential
    key_digest: bytes
    allow_changes: bool
    began_ns: int
    used_ns: int
    browser: str
    remote: str
    streams: dict[int, Callable[[], None]]  # What closes each open stream; its session is in use meanwhile.

    @property
    def ends_ns(self) -> int:
        return self.began_ns + SESSION_S * SECOND_NS


class NewSession(msgspec.Struct, frozen=True):
    """With its secrets, which are told once."""

    session: Session
    cookie: str
    key: str


class Sessions:
    def __init__(
        self, clock: Clock, secret: Callable[[], str], is_valid: Callable[[Credential], bool]
    ) -> None:
        """`secret`: text that nobody guesses. `is_valid`: whether a credential still authenticates."""
        self._clock = clock
        self._secret = secret
        self._is_valid = is_valid
        self._codes: dict[bytes, Code] = {}  # By the code's digest, oldest first.
        self._sessions: dict[bytes, Session] = {}  # By the cookie's digest, oldest first.

    # Codes.

    def make_code(self, credential: Credential, *, allow_changes: bool) -> str:
        """Raises 429."""
        now_ns = self._clock.now_ns()
        self._codes = {key: code for key, code in self._codes.items() if code.until_ns > now_ns}
        mine = [key for key, code in self._codes.items() if code.credential.user == credential.user]
        for key in mine[: max(0, len(mine) - CODES_OF_USER_MAX + 1)]:
            del self._codes[key]
        if len(self._codes) >= CODES_MAX:
            raise _full("one-time links", self._seconds_until_code_free(now_ns))
        text = self._secret()
        self._codes[_digest(text)] = Code(credential, allow_changes, now_ns + CODE_S * SECOND_NS)
        return text

    def _seconds_until_code_free(self, now_ns: int) -> int:
        return max(1, (min(code.until_ns for code in self._codes.values()) - now_ns) // SECOND_NS)

    def redeem(self, text: str) -> Code | None:
        """The code, which is void from now on. None: it never was, is used, or is too old."""
        code = self._codes.pop(_digest(text), None)
        return code if code is not None and code.until_ns > self._clock.now_ns() else None

    # Sessions.

    def begin(self, credential: Credential, *, allow_changes: bool, browser: str, remote: str) -> NewSession:
        """Raises 429. Of one user's sessions, the one unused for longest makes room."""
        self.sweep()
        mine = [each for each in self._sessions.values() if each.credential.user.name == credential.user.name]
        if len(mine) >= SESSIONS_OF_USER_MAX:
            self.end(min(mine, key=lambda each: each.used_ns).id)
        if len(self._sessions) >= SESSIONS_MAX:
            raise _full("sessions", 60)
        cookie, key, now_ns = self._secret(), self._secret(), self._clock.now_ns()
        session = Session(
            id=_digest(cookie).hex()[:12],
            credential=credential,
            key_digest=_digest(key),
            allow_changes=allow_changes,
            began_ns=now_ns,
            used_ns=now_ns,
            browser=browser[:TEXT_MAX],
            remote=remote,
            streams={},
        )
        self._sessions[_digest(cookie)] = session
        return NewSession(session, cookie, key)

    def find(self, *, cookie: str, key: str) -> Session | None:
        """The session, used now. None: there is none, it is over, or the key is another's."""
        session = self._sessions.get(_digest(cookie))
        if session is None or not hmac.compare_digest(session.key_digest, _digest(key)):
            return None
        if self._is_over(session):
            self.end(session.id)
            return None
        session.used_ns = self._clock.now_ns()
        return session

    def all(self) -> list[Session]:
        self.sweep()
        return list(self._sessions.values())

    def end(self, session_id: str) -> bool:
        """End the session and its streams; return whether there was one."""
        for key, session in self._sessions.items():
            if session.id == session_id:
                del self._sessions[key]
                for close in list(session.streams.values()):
                    close()
                return True
        return False

    def sweep(self) -> None:
        """End what is over: watches of a session that nobody asks anything else of end with it."""
        for session in [each for each in self._sessions.values() if self._is_over(each)]:
            self.end(session.id)

    def _is_over(self, session: Session) -> bool:
        now_ns = self._clock.now_ns()
        if session.streams:
            session.used_ns = now_ns
        unused = now_ns - session.used_ns >= UNUSED_S * SECOND_NS
        return unused or now_ns >= session.ends_ns or not self._is_valid(session.credential)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _full(what: str, retry_after_s: int) -> ApiError:
    return too_many_requests(f"there are too many {what}: try again later", retry_after_s=retry_after_s)
