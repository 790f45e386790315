"""Time, randomness and identities, as deciding code sees them."""

from __future__ import annotations

import os
import random
import time
from typing import Protocol

import msgspec

from fathom.model.objects import NAME_ALPHABET


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

    def since_boot_ns(self) -> int:
        """As `monotonic_ns`, and goes on while the machine sleeps."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


# The bits that mark a UUID as random: version 4, variant of RFC 9562. `uuid.UUID` is slower.
_UUID4_MASK = 0xF000 << 64 | 0xC000 << 48
_UUID4_BITS = 0x4000 << 64 | 0x8000 << 48


class RandomIds:
    """Identities drawn from an injected stream, so that a seeded one makes them reproducible."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def uid(self) -> str:
        digits = f"{self._rng.getrandbits(128) & ~_UUID4_MASK | _UUID4_BITS:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def suffix(self) -> str:
        return "".join(self._rng.choices(NAME_ALPHABET, k=5))


def live() -> Outside:
    rng = random.Random(os.urandom(32))
    return Outside(clock=SystemClock(), ids=RandomIds(rng), rng=rng)
