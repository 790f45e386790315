"""Run the zoo: is every bug found, after how many runs of which strategy, and how small is the shrunk run?

Each bug is searched in separate interpreters, by the commands that a person would use, because a patch cannot
be undone. At the end the same scenarios run as often without any bug: no checker may give a false alarm.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import Any, TypeVar

import msgspec

from fathom.model.times import SECOND_NS
from fathom.seams.outside import SystemClock
from fathom.sim.search.patches import Bug
from fathom.sim.world.scenario import Strategy

STRATEGIES: tuple[Strategy, ...] = ("random", "pct", "lineage")
SHRINK_S = 30  # For each bug. Most need less; `fathom sim shrink` has a minute for a smaller run.
TURN_S = 0.5  # How long a signal may wait.
SETS_APART = 1000  # Distance between the first seeds of two sets.


T = TypeVar("T")


class Effort(msgspec.Struct, frozen=True):
    runs_max: int = 100  # Per strategy and set of seeds.
    strategies: tuple[Strategy, ...] = STRATEGIES
    repeats: int = 1  # Sets of seeds; of several, the median counts.
    workers: int = 1
    control: bool = True


class Exploration(msgspec.Struct, frozen=True, kw_only=True):
    """One call of `fathom sim explore`."""

    scenarios: tuple[str, ...]  # (): all.
    strategy: Strategy
    runs: int
    out: Path | None = None  # Where to keep failing runs; None: the default.
    patch: Path | None = None  # With a patch, it stops at the first violation.
    nth: int = 0  # Set of seeds.
    workers: int = 1

    def words(self) -> list[str]:
        first = self.nth * SETS_APART
        seeds = ["--seeds", f"{first}..{first + self.runs}", "--runs", str(self.runs)]
        how = ["--strategy", self.strategy, "-j", str(self.workers), "--json"]
        kept = ["--out", str(self.out)] if self.out is not None else []
        bug = ["--patch", str(self.patch), "--first"] if self.patch is not None else []
        return ["sim", "explore", ",".join(self.scenarios) or "all", *seeds, *how, *kept, *bug]


class Hunted(msgspec.Struct, frozen=True):
    """The result for one bug."""

    name: str
    about: str
    scenarios: tuple[str, ...]
    found: bool
    runs_to_find: dict[str, int | None]  # By strategy; None: not within the budget.
    invariant: str  # The one that broke.
    expected: str  # The one that the patch says it breaks.
    seconds: float
    shrunk_faults: int | None
    shrunk_runs: int | None = None
    faults: Sequence[dict[str, Any]] = ()  # Of the shrunk run.


class Control(msgspec.Struct):
    """Results of the same explorations without any bug."""

    runs: int = 0
    violations: list[dict[str, Any]] = msgspec.field(default_factory=list)

    def add(self, answer: Any) -> None:
        self.runs += answer["runs"]
        self.violations += answer["violations"]


class Visit(msgspec.Struct):
    """The results so far; after Ctrl-C, the final ones."""

    hunted: dict[str, Hunted] = msgspec.field(default_factory=dict)
    control: Control | None = None
    interrupted: bool = False
    seconds: float = 0.0

    def note(self, hunted: Hunted) -> None:
        self.hunted[hunted.name] = hunted


class NotHunted(Exception):
    """The `fathom` command failed; the message is what it wrote to stderr."""


def visit(
    bugs: Sequence[Bug],
    effort: Effort,
    *,
    shown: Callable[[Hunted], None],
    report: Callable[[str], None],
) -> Visit:
    """`shown` gets each bug when it and those before it are done, `report` gets progress messages. Ctrl-C
    ends the visit with the results so far."""
    clock, results = SystemClock(), Visit()
    started_ns = clock.monotonic_ns()
    abreast = max(1, min(effort.workers, len(bugs)))
    per_bug = msgspec.structs.replace(effort, workers=max(1, effort.workers // abreast))
    commands, pool = ZooCommands(), ThreadPoolExecutor(abreast)
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        hunts = [pool.submit(hunt, bug, per_bug, commands, results.note) for bug in bugs]
        for number, (bug, future) in enumerate(zip(bugs, hunts, strict=True)):
            report(f"{number}/{len(bugs)} bugs  {bug.name}")
            shown(_awaited(future))
        if effort.control:
            results.control = Control()
            silent = without(list(results.hunted.values()), per_bug)
            answers = [pool.submit(commands.answer, *exploration.words()) for exploration in silent]
            for number, answer in enumerate(answers):
                results.control.add(_awaited(answer))
                report(f"without any bug: {number + 1}/{len(silent)} explorations")
    except KeyboardInterrupt:
        results.interrupted = True
    finally:
        commands.end()
        pool.shutdown(wait=True, cancel_futures=True)
        for number, handler in before.items():
            signal.signal(number, handler)
    results.seconds = round((clock.monotonic_ns() - started_ns) / SECOND_NS, 1)
    return results


def _awaited(future: Future[T]) -> T:
    """Wait in short steps: a signal that comes just before an endless wait would not interrupt it."""
    while not wait((future,), timeout=TURN_S).done:
        pass
    return future.result()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Works in the background too, where a shell ignores Ctrl-C; and no child process is left behind. Handles
    only the first signal: after a second one, as from `timeout`, the results so far are still shown."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def hunt(bug: Bug, effort: Effort, commands: ZooCommands, note: Callable[[Hunted], None]) -> Hunted:
    """Search for one bug. `note` gets the result so far after each step, in case of Ctrl-C."""
    clock = SystemClock()
    started_ns = clock.monotonic_ns()
    so_far = Hunted(bug.name, bug.about, bug.scenarios, False, {}, "", bug.breaks, 0.0, None)
    kept: list[tuple[int, str]] = []  # (Number of faults, file of the run.)
    with tempfile.TemporaryDirectory() as folder:
        for strategy in effort.strategies:
            answers = [
                commands.answer(*_exploration(bug, strategy, effort, Path(folder), nth=nth).words())
                for nth in range(effort.repeats)
            ]
            broken = [answer for answer in answers if answer["violations"]]
            kept += [(answer["violations"][0]["faults"], answer["artifacts"][0]) for answer in broken]
            invariants = [answer["violations"][0]["invariant"] for answer in broken]
            so_far = msgspec.structs.replace(
                so_far,
                found=so_far.found or bool(broken),
                runs_to_find={**so_far.runs_to_find, strategy: median(map(runs_to_find, answers))},
                invariant=so_far.invariant or next(iter(invariants), ""),
                seconds=round((clock.monotonic_ns() - started_ns) / SECOND_NS, 1),
            )
            note(so_far)
        if kept:
            words = ("--patch", str(bug.file), "--seconds", str(SHRINK_S), "--json")
            shrunk = commands.answer("sim", "shrink", min(kept)[1], *words)
            so_far = msgspec.structs.replace(
                so_far,
                shrunk_faults=len(shrunk["faults"]),
                shrunk_runs=shrunk["runs"],
                faults=shrunk["faults"],
                seconds=round((clock.monotonic_ns() - started_ns) / SECOND_NS, 1),
            )
            note(so_far)
    return so_far


def _exploration(bug: Bug, strategy: Strategy, effort: Effort, folder: Path, *, nth: int) -> Exploration:
    return Exploration(
        scenarios=bug.scenarios,
        strategy=strategy,
        runs=effort.runs_max,
        out=folder / f"{strategy}-{nth}",
        patch=bug.file,
        nth=nth,
        workers=effort.workers,
    )


def runs_to_find(answer: Any) -> int | None:
    return int(answer["runs"]) if answer["violations"] else None


def median(counts: Iterable[int | None]) -> int | None:
    """None counts as more than any number."""
    middle = statistics.median_high(math.inf if count is None else count for count in counts)
    return None if middle == math.inf else int(middle)


def without(hunted: Iterable[Hunted], effort: Effort) -> list[Exploration]:
    """Explorations without a bug: as many runs of the same scenarios as the slowest of their bugs took."""
    needed: dict[tuple[tuple[str, ...], Strategy], int] = {}
    for result in hunted:
        for strategy in effort.strategies:
            search, count = (result.scenarios, strategy), result.runs_to_find.get(strategy) or effort.runs_max
            needed[search] = max(needed.get(search, 0), count)
    return [
        Exploration(scenarios=names, strategy=strategy, runs=runs, workers=effort.workers)
        for (names, strategy), runs in needed.items()
    ]


class ZooCommands:
    """Runs `fathom` commands, which can all be ended at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._live: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def answer(self, *words: str) -> Any:
        """The command's JSON output, whether it exits with 0 or 1 (violations found)."""
        with self._lock:
            if self._ended:
                raise NotHunted("the search was ended")
            # In its own session, so that only the parent handles Ctrl-C.
            child = subprocess.Popen(
                [sys.executable, "-m", "fathom.cli", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._live.add(child)
        out, err = child.communicate()
        with self._lock:
            self._live.discard(child)
        if child.returncode not in {0, 1}:
            raise NotHunted(err.decode(errors="replace").strip() or f"exit code {child.returncode}")
        return msgspec.json.decode(out)

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for child in self._live:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGTERM)  # With its workers.
