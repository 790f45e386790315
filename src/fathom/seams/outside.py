"""Time, randomness and identities, as deciding code sees them."""

from __future__ import annotations

import os
import random
import time
import uuid
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

import msgspec

# What kube-apiserver leaves out of generated names so that they spell no words and confuse no reader.
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class Clock(Protocol):
    def now_ns(self) -> int:
        """Wall time since the epoch."""
        ...

    def monotonic_ns(self) -> int:
        """Time that never goes back, for ages and deadlines."""
        ...


class Ids(Protocol):
    def uid(self) -> str: ...

    def suffix(self) -> str:
        """Five characters for generateName."""
        ...


class Outside(msgspec.Struct, frozen=True):
    clock: Clock
    ids: Ids
    rng: random.Random


class SystemClock:
    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class RandomIds:
    """Identities drawn from an injected stream, so that a seeded one makes them reproducible."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def uid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def suffix(self) -> str:
        return "".join(self._rng.choices(NAME_ALPHABET, k=5))


def live() -> Outside:
    rng = random.Random(os.urandom(32))
    return Outside(clock=SystemClock(), ids=RandomIds(rng), rng=rng)


@lru_cache(maxsize=16)
def _hour(hour: int) -> str:
    """Thousands of writes ask for the same words."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%H:")


@lru_cache(maxsize=16)
def _second(second: int) -> str:
    hour, rest = divmod(second, 3600)
    return f"{_hour(hour)}{rest // 60:02d}:{rest % 60:02d}"


def timestamp(now_ns: int) -> str:
    """Kubernetes' metav1.Time: RFC 3339, whole seconds, UTC."""
    return f"{_second(now_ns // 1_000_000_000)}Z"


def micro_timestamp(now_ns: int) -> str:
    """Kubernetes' metav1.MicroTime."""
    second, rest_ns = divmod(now_ns, 1_000_000_000)
    return f"{_second(second)}.{rest_ns // 1000:06d}Z"
