"""When a probe is asked, and what is told of it."""

from __future__ import annotations

import asyncio
import random

from tests.control.stage import Stage

from fathom.agent.probing import Prober, ProbeTally
from fathom.agent.runtime import ProbeResult
from fathom.model.objects import Obj


class Program:
    """Answers from a moment on."""

    def __init__(self, well_s: float) -> None:
        self._well_s = well_s
        self.tried_s: list[float] = []
        self.told: list[tuple[ProbeTally, bool]] = []

    async def try_(self, probe: Obj) -> ProbeResult:
        now_s = asyncio.get_running_loop().time()
        self.tried_s.append(now_s)
        return ProbeResult(now_s - self.tried_s[0] >= self._well_s, "")

    def hear(self, tally: ProbeTally, probed: ProbeResult) -> bool:
        self.told.append((tally, probed.ok))
        return True

    def probed(self, probe: Obj, *, eager: bool, for_s: float) -> list[float]:
        """When it was tried, counted from the first time."""
        stage = Stage()
        prober = Prober(probe, self.try_, self.hear, rng=random.Random(1), eager=eager)
        stage.begin(prober.run())
        stage.wait(for_s)
        return [round(tried_s - self.tried_s[0], 3) for tried_s in self.tried_s]


def test_until_it_has_passed_a_probe_is_tried_more_often_and_only_what_counts_is_told() -> None:
    program = Program(well_s=1.0)
    tries = program.probed({"periodSeconds": 10}, eager=True, for_s=25)
    assert tries == [0, 0.1, 0.3, 0.7, 1.5, 10, 20]
    assert program.told == [
        (ProbeTally(0, 1, None), False),
        (ProbeTally(1, 0, True), True),
        (ProbeTally(2, 0, True), True),
        (ProbeTally(3, 0, True), True),
    ]


def test_a_probe_by_which_a_program_may_be_ended_is_tried_as_often_as_it_asks_for() -> None:
    program = Program(well_s=1.0)
    assert program.probed({"periodSeconds": 10}, eager=False, for_s=25) == [0, 10, 20]
    assert [ok for _, ok in program.told] == [False, True, True]


class Flickering(Program):
    """Passes every second time."""

    async def try_(self, probe: Obj) -> ProbeResult:
        self.tried_s.append(asyncio.get_running_loop().time())
        return ProbeResult(len(self.tried_s) % 2 == 0, "")


def test_a_failure_between_two_successes_counts_also_where_the_probe_is_tried_more_often() -> None:
    """It must pass twice in a row, and never does."""
    program = Flickering(well_s=0)
    program.probed({"periodSeconds": 3, "successThreshold": 2}, eager=True, for_s=30)
    assert all(tally.verdict is not True for tally, _ in program.told)
