"""Limits on the rate of one client's requests, and on all clients' requests in progress.

Every number is a default that the wiring may replace; it is kube-apiserver's where that has one.
"""

from __future__ import annotations

import re
import sys

import msgspec

from fathom.api.request import RequestTarget
from fathom.model.errors import ApiError, bad_request, too_many_requests
from fathom.model.times import SECOND_NS
from fathom.model.user import ANONYMOUS, MASTERS, User
from fathom.seams.outside import Clock

BODY_BYTES_MAX = 3 * 1024 * 1024  # kube-apiserver's.
REQUEST_S = 60.0  # kube-apiserver's --request-timeout.
READONLY_MAX = 400  # kube-apiserver's --max-requests-inflight.
MUTATING_MAX = 200  # kube-apiserver's --max-mutating-requests-inflight.

READONLY = frozenset({"get", "list", "watch", "head", "options"})


class RequestRate(msgspec.Struct, frozen=True):
    """The request rate allowed to one user. A quarter of what the server can do at its best: a client that
    runs wild leaves most of it to other clients, and a controller that starts with a burst of lists is not
    delayed."""

    per_s: int = 4_000
    burst: int = 8_000
    users_max: int = (
        10_000  # Beyond this, the least recently seen user is dropped, and starts again with a full burst.
    )


class RateLimit:
    """One token bucket per user, stored as the time at which the bucket is full again: the part of the burst
    that is used up is the distance from now to that time. Anonymous requests are not counted: they can only
    read health and version, which cost no more than a refusal, and one anonymous client must not use up what
    probes need."""

    def __init__(self, clock: Clock, rate: RequestRate | None = None) -> None:
        self._clock = clock
        self._rate = rate or RequestRate()
        self._interval_ns = SECOND_NS // self._rate.per_s
        self._depth_ns = self._interval_ns * self._rate.burst
        self._full_at_ns: dict[str, int] = {}  # By user, in order of last use.

    def check(self, user: User) -> None:
        """Count one request; raise 429 if it is one too many, without counting it."""
        if MASTERS in user.groups or user.name == ANONYMOUS:
            return
        now_ns = self._clock.monotonic_ns()
        full_at_ns = max(self._full_at_ns.pop(user.name, now_ns), now_ns) + self._interval_ns
        wait_ns = full_at_ns - now_ns - self._depth_ns
        if wait_ns > 0:
            full_at_ns -= self._interval_ns
        elif len(self._full_at_ns) >= self._rate.users_max:
            del self._full_at_ns[next(iter(self._full_at_ns))]
        self._full_at_ns[user.name] = full_at_ns
        if wait_ns > 0:
            raise _too_many(-(-wait_ns // SECOND_NS))


class Room:
    """At most `limit` requests of one sort in progress. A context manager, entered for the duration of one
    request."""

    __slots__ = ("count", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0

    def __enter__(self) -> None:
        if self.count >= self.limit:
            raise _too_many(1)
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


class Throttle:
    """The limits of one server. Reads and writes are limited separately, so that a flood of one leaves the
    other working. Watches and other long answers are not counted. Members of system:masters are never
    refused, so that an operator gets in when the server is full."""

    def __init__(
        self,
        clock: Clock,
        *,
        rate: RequestRate | None = None,
        readonly_max: int = READONLY_MAX,
        mutating_max: int = MUTATING_MAX,
    ) -> None:
        self._rate = RateLimit(clock, rate)
        self._readonly = Room(readonly_max)
        self._mutating = Room(mutating_max)
        self._open = Room(sys.maxsize)

    def admit(self, user: User) -> None:
        """Count one request of this user; raise 429 if it is one too many."""
        self._rate.check(user)

    def room(self, user: User, target: RequestTarget) -> Room:
        """The `Room` that limits this request: `with throttle.room(user, target): ...`. Entering a full one
        raises 429."""
        if MASTERS in user.groups or is_long(target):
            return self._open
        return self._readonly if target.verb in READONLY else self._mutating

    def reading(self) -> Room:
        return self._readonly

    def writing(self) -> Room:
        return self._mutating


def _too_many(retry_after_s: int) -> ApiError:
    return too_many_requests("Too many requests, please try again later.", retry_after_s=retry_after_s)


LONG_SUBRESOURCES = frozenset({"log", "exec", "attach", "portforward", "proxy"})


def is_long(target: RequestTarget) -> bool:
    """Whether the answer is a long stream: it has no deadline here, and does not count as a request in
    progress."""
    return target.verb == "watch" or target.subresource in LONG_SUBRESOURCES


def timeout_s(target: RequestTarget, requested: str = "", limit_s: float = REQUEST_S) -> float | None:
    """How long the request may take; None: no limit. `requested` is its `timeout` parameter, in Go's notation
    for durations; it can only shorten the limit."""
    if is_long(target):
        return None
    return min(_seconds(requested) or limit_s, limit_s) if requested else limit_s


_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d{1,9}(?:\.\d{0,9})?)(ns|us|µs|ms|s|m|h)"


def _seconds(text: str) -> float:
    if not re.fullmatch(f"({_PART}){{1,6}}", text, re.ASCII):
        raise bad_request(f'invalid timeout specified in the request URL - invalid duration "{text}"')
    return sum(float(number) * _UNITS_S[unit] for number, unit in re.findall(_PART, text))
