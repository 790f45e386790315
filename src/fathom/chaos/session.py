"""Runs one after another: one without faults, then one for each seed, until one breaks or time is up."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from fathom.chaos.cluster import Authority
from fathom.chaos.report import Asked, ChaosReport, Failure, OneRun, failure_of, one_run, rerun
from fathom.chaos.run import LiveRun, RunResult, RunSettings
from fathom.chaos.schedule import Schedule, calm
from fathom.seams.outside import Clock
from fathom.sim.checkers.operators import Role
from fathom.sim.report.run_report import BROKEN, HOLDS


class Session:
    def __init__(
        self, settings: RunSettings, asked: Asked, *, clock: Clock, keep: Path, tell: Callable[[OneRun], None]
    ) -> None:
        """`keep`: where the program's output of a broken run is kept."""
        self._settings = settings
        self._asked = asked
        self._clock = clock
        self._keep = keep
        self._tell = tell
        self._runs: list[OneRun] = []
        self._ready_s: list[float] = []
        self._failure: Failure | None = None

    async def run(self, schedules: Iterable[tuple[int, Schedule]], *, for_s: float | None) -> ChaosReport:
        """`for_s`: no run begins later than this. Raises ProgramNotStarted, ServerNotStarted, Refused."""
        directory = Path(tempfile.mkdtemp(prefix="fathom-chaos-"))
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.add_signal_handler(signal.SIGTERM, task.cancel)  # A build that is cancelled leaves nothing.
        began_s = loop.time()
        try:
            authority = Authority(directory, self._clock)
            usual = await self._one(
                None, calm(len(self._settings.manifests.during)), None, directory, authority
            )
            for seed, schedule in schedules:
                if self._failure is not None or (for_s is not None and loop.time() - began_s >= for_s):
                    break
                await self._one(seed, schedule, usual, directory, authority)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return self._report()

    async def _one(
        self,
        seed: int | None,
        schedule: Schedule,
        usual: Mapping[Role, int] | None,
        directory: Path,
        authority: Authority,
    ) -> Mapping[Role, int]:
        place = directory / f"run-{len(self._runs)}"
        run = LiveRun(
            self._settings, schedule, calm=usual, directory=place, authority=authority, clock=self._clock
        )
        result = await run.run()
        self._runs.append(one_run(seed, result))
        self._ready_s.append(result.ready_s)
        self._failure = failure_of(seed, result)
        if self._failure is not None:
            kept = self._kept_output(seed, result)
            self._failure = msgspec.structs.replace(self._failure, output_file=kept)
        self._tell(self._runs[-1])
        shutil.rmtree(place, ignore_errors=True)
        return result.counted

    def _kept_output(self, seed: int | None, result: RunResult) -> str:
        self._keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._keep / f"chaos-{'calm' if seed is None else seed}.log"
        shutil.copyfile(result.output, file)
        return str(file)

    def _report(self) -> ChaosReport:
        failure = self._failure
        return ChaosReport(
            verdict=HOLDS if failure is None else BROKEN,
            asked=self._asked,
            runs=tuple(self._runs),
            ready_s=round(sum(self._ready_s) / len(self._ready_s), 3),
            failure=failure,
            rerun="" if failure is None else rerun(self._asked, failure.seed),
        )
