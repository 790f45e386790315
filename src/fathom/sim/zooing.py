"""Go through the zoo: is every bug found, how soon by which strategy, and how small does its story get?

Each bug is hunted in an interpreter of its own, by the commands that a person would use: a patch cannot be
taken back.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fathom.seams.outside import SystemClock
from fathom.sim.inforce import SECOND_NS
from fathom.sim.patches import Bug
from fathom.sim.scenario import Strategy

STRATEGIES: tuple[Strategy, ...] = ("random", "pct", "lineage")


class Hunted(msgspec.Struct, frozen=True):
    """What came of one bug."""

    name: str
    about: str
    scenarios: tuple[str, ...]
    found: bool
    runs_to_find: dict[str, int | None]  # By strategy; None: not within the budget.
    invariant: str  # That was broken.
    expected: str  # That the patch says it breaks.
    seconds: float
    shrunk_faults: int | None
    shrunk_runs: int | None = None
    faults: Sequence[dict[str, Any]] = ()  # Those that were left.


def hunt(bug: Bug, *, runs_max: int, workers: int, told: Callable[[str], None]) -> Hunted:
    started_ns = SystemClock().monotonic_ns()
    counts: dict[str, int | None] = {}
    invariants: list[str] = []
    shrunk: dict[str, Any] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for strategy in STRATEGIES:
            told(f"{bug.name}: {strategy}")
            out = Path(folder) / strategy
            answer = _explored(bug, strategy, runs_max, workers, out)
            counts[strategy] = answer["runs"] if answer["violations"] else None
            invariants += [one["invariant"] for one in answer["violations"][:1]]
            if shrunk is None and answer["artifacts"]:
                told(f"{bug.name}: shrinking")
                shrunk = _fathom("sim", "shrink", answer["artifacts"][0], "--patch", str(bug.file), "--json")
    seconds = (SystemClock().monotonic_ns() - started_ns) / SECOND_NS
    return Hunted(
        name=bug.name,
        about=bug.about,
        scenarios=bug.scenarios,
        found=any(count is not None for count in counts.values()),
        runs_to_find=counts,
        invariant=invariants[0] if invariants else "",
        expected=bug.breaks,
        seconds=round(seconds, 1),
        shrunk_faults=None if shrunk is None else len(shrunk["faults"]),
        shrunk_runs=None if shrunk is None else shrunk["runs"],
        faults=() if shrunk is None else shrunk["faults"],
    )


def _explored(bug: Bug, strategy: Strategy, runs_max: int, workers: int, out: Path) -> Any:
    options = ["--strategy", strategy, "--patch", str(bug.file), "--first", "--runs", str(runs_max)]
    where = ["--seeds", f"0..{runs_max}", "-j", str(workers), "--out", str(out), "--json"]
    return _fathom("sim", "explore", ",".join(bug.scenarios) or "all", *options, *where)


def _fathom(*words: str) -> Any:
    """Its answer, whether it is good or bad news."""
    ran = subprocess.run([sys.executable, "-m", "fathom.cli", *words], capture_output=True, check=False)
    if ran.returncode not in {0, 1}:
        raise RuntimeError(ran.stderr.decode(errors="replace").strip() or f"exit code {ran.returncode}")
    return msgspec.json.decode(ran.stdout)
