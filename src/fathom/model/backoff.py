"""The backoff after a failure: one rule for all components, the limits as data.

RESTART = Backoff(0.1, 30.0)
await asyncio.sleep(RESTART.jittered_s(failures, rng))

Kubernetes' own numbers (restarts of containers, pods of a Job) are such limits too, without jitter.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

# More doublings than any limit needs, and still a number that floats hold exactly.
DOUBLINGS_MAX = 32


class Chance(Protocol):
    """A random stream. Plans that wait without jitter import this module, so it does not import `random`."""

    def random(self) -> float: ...


class Backoff(msgspec.Struct, frozen=True):
    """Doubled with each failure in a row."""

    s_min: float
    s_max: float

    def whole_s(self, failures: int) -> float:
        """The delay after so many failures in a row. After none, the same as after the first."""
        doublings = min(max(failures - 1, 0), DOUBLINGS_MAX)
        return float(min(self.s_max, self.s_min * 2**doublings))

    def jittered_s(self, failures: int, rng: Chance) -> float:
        """Half of the delay is random, so that clients that failed together do not retry together."""
        return self.whole_s(failures) * (0.5 + rng.random() / 2)
