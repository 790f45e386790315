"""Probes: when to run them, and after how many results in a row the verdict changes.

The decisions are pure (`judge`); `Prober` runs the probe on time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from fathom.agent.runtime import ProbeResult
from fathom.model.objects import Obj

STARTUP, READINESS, LIVENESS = "startupProbe", "readinessProbe", "livenessProbe"

SPREAD_S = 0.1
MOMENT_S = 1.0
EAGER_S = 0.1  # Doubled each time.


class ProbeTally(msgspec.Struct, frozen=True):
    """Results of a probe so far. `verdict` None: not enough results yet."""

    successes: int = 0  # In a row.
    failures: int = 0
    verdict: bool | None = None


def judge(tally: ProbeTally, ok: bool, probe: Obj) -> ProbeTally:
    """Add one result. A verdict changes only after as many results in a row as the probe's threshold."""
    if ok:
        successes = tally.successes + 1
        passed = successes >= (probe.get("successThreshold") or 1)
        return ProbeTally(successes, 0, True if passed else tally.verdict)
    failures = tally.failures + 1
    failed = failures >= (probe.get("failureThreshold") or 3)
    return ProbeTally(0, failures, False if failed else tally.verdict)


def initial_delay_s(probe: Obj) -> int:
    return int(probe.get("initialDelaySeconds") or 0)


def period_s(probe: Obj) -> int:
    return int(probe.get("periodSeconds") or 10)


def timeout_s(probe: Obj) -> int:
    return int(probe.get("timeoutSeconds") or 1)


Try = Callable[[Obj], Awaitable[ProbeResult]]
OnResult = Callable[[ProbeTally, ProbeResult], bool]  # Whether to go on.


class Prober:
    """Run one probe of one run until `on_result` returns False. `eager`: until it has passed, it runs more
    often than its period, so that a pod becomes ready when it is and not a period later; such a try counts,
    and is reported, only if it passes."""

    def __init__(
        self, probe: Obj, try_: Try, on_result: OnResult, *, rng: random.Random, eager: bool
    ) -> None:
        self._probe = probe
        self._try = try_
        self._on_result = on_result
        self._rng = rng
        self._eager = eager
        self._tally = ProbeTally()

    async def run(self) -> None:
        # A restarted agent with many pods must not probe all of them at once; and a container that would be
        # killed for not answering gets a moment to start.
        patience_s = 0.0 if self._eager else MOMENT_S
        await asyncio.sleep(initial_delay_s(self._probe) + patience_s + self._rng.random() * SPREAD_S)
        while await self._once(counts=True):
            rest_s = float(period_s(self._probe))
            pause_s = EAGER_S
            while self._eager and self._tally.verdict is not True and pause_s < rest_s:
                await asyncio.sleep(pause_s)
                rest_s -= pause_s
                pause_s *= 2
                if not await self._once(counts=False):
                    return
            await asyncio.sleep(rest_s)

    async def _once(self, *, counts: bool) -> bool:
        probed = await self._try(self._probe)
        if not counts and not probed.ok:
            self._tally = msgspec.structs.replace(self._tally, successes=0)
            return True
        self._tally = judge(self._tally, probed.ok, self._probe)
        goes_on = self._on_result(self._tally, probed)
        return goes_on and not (probed.final and self._tally.verdict is probed.ok)
