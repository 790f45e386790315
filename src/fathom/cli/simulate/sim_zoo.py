"""`fathom sim zoo`: known bugs, put back one at a time: whether each is found, and after how many runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from fathom.cli.output import AsJson, Output, document_format, print_document
from fathom.cli.problem import ANSWER_IS_NO, INTERRUPTED, Problem
from fathom.cli.simulate.sim import Strategy
from fathom.cli.status_line import live_line
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.sim.search.patches import Bug
    from fathom.sim.search.zoo_run import Hunted

RUNS, RUNS_EVERYWHERE = 100, 600  # Per strategy, for one bug of the zoo.


def zoo(
    *,
    folder: Annotated[
        Path | None, Parameter(help="Directory of patches to use instead of fathom's own.")
    ] = None,
    patch: Annotated[
        Path | None, Parameter(help="Use only this patch; it runs in all scenarios if it names none.")
    ] = None,
    only: Annotated[tuple[str, ...], Parameter(negative=(), help="Only this bug; may be repeated.")] = (),
    strategy: Annotated[
        tuple[Strategy, ...],
        Parameter(negative=(), help="Only this strategy; may be repeated. Default: all."),
    ] = (),
    runs: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1),
            help="Maximum runs for each strategy. Default: 100, or 600 in all scenarios.",
        ),
    ] = None,
    repeats: Annotated[
        int, Parameter(validator=Number(gte=1), help="Number of seed sets to search with; the median counts.")
    ] = 1,
    control: Annotated[bool, Parameter(help="Also run the same scenarios without any bug, as often.")] = True,
    jobs: Annotated[
        int | None,
        Parameter(
            name=["-j", "--jobs"],
            validator=Number(gte=1),
            help="Number of bugs to search for at once. Default: one per core.",
        ),
    ] = None,
    output: Output = "",
    as_json: AsJson = False,
) -> int:
    """Put known bugs back, one at a time, and count the runs until each is found.

    A strategy stops when it has found the bug. Exits with 0 if every bug is found and no run without a bug
    violates an invariant, with 1 if not. Ctrl-C ends the search and prints the results so far.

    Prints a row for each bug, with the runs that each strategy needed.

    fathom sim zoo
    fathom sim zoo --only bookmark-ahead --strategy pct --runs 50
    """
    from fathom.sim.report import zoo_report  # noqa: PLC0415
    from fathom.sim.search import zoo_run  # noqa: PLC0415

    wanted, bugs = document_format(output, as_json=as_json), _wanted(folder, patch, only)
    everywhere = any(not bug.scenarios for bug in bugs)
    effort = zoo_run.Effort(
        runs_max=runs or (RUNS_EVERYWHERE if everywhere else RUNS),
        strategies=tuple(name for name in zoo_run.STRATEGIES if not strategy or name in strategy),
        repeats=repeats,
        workers=jobs or os.cpu_count() or 1,
        control=control,
    )
    table = _Table(bugs, quiet=bool(wanted))
    with live_line(quiet=False) as show_line:
        try:
            visited = zoo_run.visit(bugs, effort, shown=partial(table.row, show_line), report=show_line)
        except zoo_run.NotHunted as error:  # The message of `fathom sim explore`.
            raise Problem(str(error).removeprefix("fathom: error: ")) from error
    document = zoo_report.as_json(visited, bugs, effort)
    if wanted:
        print_document(document, wanted)
    else:
        say(*zoo_report.as_lines(document))
    good = document["found"] == document["of"] and not (visited.control and visited.control.violations)
    return INTERRUPTED if visited.interrupted else 0 if good else ANSWER_IS_NO


def _wanted(folder: Path | None, patch: Path | None, only: tuple[str, ...]) -> list[Bug]:
    from fathom.sim import zoo as zoo_package  # noqa: PLC0415
    from fathom.sim.search.patches import BadPatch, bugs, described  # noqa: PLC0415

    try:
        known_bugs = (
            [described(patch)] if patch is not None else bugs(folder or Path(zoo_package.__file__).parent)
        )
    except BadPatch as error:
        raise Problem(str(error)) from error
    if missing := sorted(set(only) - {bug.name for bug in known_bugs}):
        raise Problem(
            f"there is no bug {missing[0]!r}: there are {', '.join(bug.name for bug in known_bugs)}"
        )
    return [bug for bug in known_bugs if not only or bug.name in only]


class _Table:
    """Prints rows as they arrive."""

    def __init__(self, bugs: Sequence[Bug], *, quiet: bool) -> None:
        self._width = max((len(bug.name) for bug in bugs), default=3)
        self._quiet = quiet
        self._begun = False

    def row(self, show_line: Callable[[str], None], hunted: Hunted) -> None:
        if self._quiet:
            return
        show_line("")  # Else the row would follow the progress in its line.
        if not self._begun:
            say(f"{'bug':<{self._width}}  found  random   pct  lineage  faults  seconds  invariant")
        self._begun = True
        random, pct, lineage = (
            "-" if (count := hunted.runs_to_find.get(strategy)) is None else str(count)
            for strategy in ("random", "pct", "lineage")
        )
        faults = "-" if hunted.shrunk_faults is None else str(hunted.shrunk_faults)
        is_found = "yes" if hunted.found else "NO"
        say(
            f"{hunted.name:<{self._width}}  {is_found:<5}  {random:>6}  {pct:>4}  {lineage:>7}  "
            f"{faults:>6}  {hunted.seconds:>7.1f}  {hunted.invariant or f'(expected: {hunted.expected})'}",
        )
