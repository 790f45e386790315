"""Run a scenario as a pytest test; if it breaks, shrink it, keep it, and print the command to replay it."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec
import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter
from _pytest.outcomes import Failed

from fathom.sim.report import artifact as run_artifact
from fathom.sim.report.artifact_head import NotAnArtifact
from fathom.sim.report.kept_runs import KeptRun, keep
from fathom.sim.report.replay import replay
from fathom.sim.report.run_report import as_lines, report
from fathom.sim.search.cores import freeze
from fathom.sim.search.explore import Job, explore
from fathom.sim.search.shrink import shrink
from fathom.sim.search.summary import ExploreSummary
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Result, Scenario, Story, scenario, sweep, tell
from fathom.sim.world.world import World
from fathom.terminal import visible

# For tests that name no faults: none are drawn. The seed still decides how long messages take.
CALM = Menu(processes=("nobody",), most=0)


class NotYet:
    """The value of the `world` fixture until the scenario runs."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("the world exists only while the test runs: other fixtures cannot use it")


class Ledger:
    """The results of all scenarios of this pytest session."""

    def __init__(self) -> None:
        self.summary = ExploreSummary()
        self.failures: list[str] = []

    def add(self, summary: ExploreSummary) -> None:
        self.summary.merge(summary)

    def line(self) -> str:
        summary = self.summary
        speed = f"{summary.sim_s:,.0f} s simulated, {summary.sim_ratio:,.0f} × real time"
        return f"{summary.runs:,} runs, {speed}, {len(summary.coverage)} pairs of fault and site"


LEDGER: pytest.StashKey[Ledger] = pytest.StashKey()
JUDGED: pytest.StashKey[dict[str, Scenario]] = pytest.StashKey()


def ledger_of(config: pytest.Config) -> Ledger:
    if LEDGER not in config.stash:
        config.stash[LEDGER] = Ledger()
        freeze()  # Garbage collection between runs need not look at all of pytest.
    return config.stash[LEDGER]


class BrokenStory(Failed):
    """A run broke an invariant. Its message is the whole report."""


class StoryReport(TerminalRepr):
    """A report that is shown once, in full: pytest's summary, which is uncut on a build server, repeats only
    its first line."""

    def __init__(self, text: str) -> None:
        self._text = text = "\n".join(map(visible, text.split("\n")))
        self.reprcrash = ReprFileLocation("", 0, text.partition("\n")[0])

    def toterminal(self, tw: TerminalWriter) -> None:
        tw.line(self._text)


class StoryTest(pytest.Item):
    """One scenario with one seed."""

    def __init__(self, *, scenario: Scenario, seed: str, **more: Any) -> None:
        super().__init__(**more)
        file = _relative(self.path)
        self._scenario = msgspec.structs.replace(scenario, name=f"{file}:{scenario.name}")
        self._seed = seed

    def runtest(self) -> None:
        _ScenarioRun(self, self._scenario, self._seed, test="").tell()

    def reportinfo(self) -> tuple[Path, int | None, str]:
        line = inspect.getsourcelines(self._scenario.story)[1]
        return self.path, line - 1, self.name


def tell_test(item: pytest.Function) -> None:
    """Run a test function as a scenario; it gets its other fixtures as usual."""
    function = item.obj
    if not inspect.iscoroutinefunction(function):
        pytest.fail("a test with the fixture `world` or `operator` must be an async def", pytrace=False)
    wanted = item._fixtureinfo.argnames
    later = {name for name in wanted if isinstance(item.funcargs[name], NotYet)}
    fixtures = {name: item.funcargs[name] for name in wanted if name not in later}

    def story(world: World) -> Awaitable[None]:
        later_fixtures = {
            name: make(world, item.path.parent) for name, make in REAL_LATER.items() if name in later
        }
        return cast(Awaitable[None], function(**fixtures, **later_fixtures))

    test = f"{_relative(item.path)}::{item.nodeid.partition('::')[2].rpartition('[')[0]}"
    _ScenarioRun(
        item, _scenario_of(item, story, test), str(item.callspec.params["fathom_seed"]), test=test
    ).tell()


def _operator_test(world: World, folder: Path) -> Any:
    from fathom.sim.foreign.operator_test import OperatorTest  # noqa: PLC0415 - needs greenlet

    return OperatorTest(world, folder)


# Fixtures that exist only while the scenario runs: from its world, and the folder of the test.
REAL_LATER: dict[str, Callable[[World, Path], Any]] = {
    "world": lambda world, folder: world,
    "operator": _operator_test,
}


def _scenario_of(item: pytest.Function, story: Story, name: str) -> Scenario:
    mark = item.get_closest_marker("world")
    arguments: tuple[Any, ...] = mark.args if mark is not None else ()
    options = mark.kwargs if mark is not None else {}
    if not isinstance(item.funcargs.get("operator"), NotYet):  # Or a fixture of the user's own.
        return scenario(*(arguments or (CALM,)), name=name, **options)(story)
    from fathom.sim.foreign.operator_test import MENU, judged  # noqa: PLC0415 - needs greenlet

    # One for all seeds of a test: the run without faults that it compares with is made once.
    parameters = {key: value for key, value in item.callspec.params.items() if key != "fathom_seed"}
    kept = item.config.stash.setdefault(JUDGED, {})
    built = judged(scenario(*(arguments or (MENU,)), name=name, **options)(story))
    first = kept.setdefault(f"{name} {parameters}", built)
    return msgspec.structs.replace(built, checkers=first.checkers, tale=first.tale)


def _relative(path: Path) -> str:
    """The path relative to the current directory, as a person would type it."""
    cwd = Path.cwd()
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)


class _ScenarioRun:
    """Runs one test. `test`: its pytest id, where only pytest can run it; '' where its file is enough."""

    def __init__(self, item: pytest.Item, story: Scenario, seed: str, *, test: str) -> None:
        self._config = item.config
        self._story = story
        self._seed = seed
        self._test = test
        self._ledger = ledger_of(item.config)

    def tell(self) -> None:
        file = self._config.getoption("--fathom-replay")
        if file:
            self._replay(Path(file))
            return
        job = Job(self._story.name, self._seed, self._config.getoption("--fathom-strategy"))
        runs_max = self._config.getoption("--fathom-runs")
        summary = explore({self._story.name: self._story}, [job], stop_at_first=True, runs_max=runs_max)
        self._ledger.add(summary)
        if summary.interrupted:
            raise KeyboardInterrupt
        if summary.violations:
            self._fail(self._smallest(summary.violations[0]))

    def _smallest(self, result: Result) -> Result:
        return shrink(result, self._retell).result if self._config.getoption("--fathom-shrink") else result

    def _retell(self, plan: Any) -> Result:
        sweep()
        return tell(self._story, plan)

    def _fail(self, result: Result) -> NoReturn:
        patch = self._config.getoption("--fathom-patch")
        run_report, scenario_run = report(self._story, result.plan, patch=patch or "")
        if self._test:
            run_report = msgspec.structs.replace(run_report, rerun=self._rerun() if run_report.rerun else "")
        out = Path(self._config.getoption("--fathom-out"))
        kept = keep(run_report, scenario_run, patch=Path(patch) if patch else None, out=out)
        again = self._again(kept)
        self._ledger.failures.append(run_report.rerun or again)
        raise BrokenStory("\n".join([*as_lines(run_report), f"replay:  {again}"]), pytrace=False)

    def _rerun(self) -> str:
        strategy = self._config.getoption("--fathom-strategy")
        more = "" if strategy == "random" else f" --fathom-strategy {strategy}"
        return f"pytest {shlex.quote(self._test)} --fathom-seeds {self._seed}{more}{self._patched()}"

    def _again(self, kept: KeptRun) -> str:
        if not self._test:
            return kept.replay
        return f"pytest {shlex.quote(self._test)} --fathom-replay {kept.file}{self._patched()}"

    def _patched(self) -> str:
        patch = self._config.getoption("--fathom-patch")
        return f" --fathom-patch {patch}" if patch else ""

    def _replay(self, file: Path) -> None:
        try:
            artifact = run_artifact.read(file)
        except NotAnArtifact as error:
            raise pytest.UsageError(str(error)) from error
        if artifact.plan.scenario != self._story.name:
            pytest.skip(f"{file} is a run of {artifact.plan.scenario}")
        try:
            replayed, result = replay(artifact, self._story)
        except NotAnArtifact as error:
            raise pytest.UsageError(f"{file}: {error}") from error
        notes = "".join(f"\nnote: {warning}" for warning in replayed.warnings)
        if not replayed.reproduced:
            raise BrokenStory(f"NOT reproduced: {replayed.divergence}{notes}", pytrace=False)
        if result.violation is not None:
            run_report, _ = report(self._story, artifact.plan)
            lines = ["reproduced, input for input", *as_lines(msgspec.structs.replace(run_report, rerun=""))]
            raise BrokenStory("\n".join(lines) + notes, pytrace=False)
