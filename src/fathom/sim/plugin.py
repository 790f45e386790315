"""The pytest plugin: scenarios and tests with a `world` fixture run once for each seed.

    @scenario(Menu(processes=("greeter",)))        is a test for each seed of --fathom-seeds
    async def test_…(world: World) -> None:        too; @pytest.mark.world(Menu(…)) names its faults
    async def test_…(operator: OperatorTest)       too, for an operator that was not written for fathom

pytest loads this file wherever fathom is installed, so it imports nothing until there is a scenario to run.
`story_tests` runs the scenario and reports the result.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fathom.sim.foreign.operator_test import OperatorTest
    from fathom.sim.pytest_plugin.story_tests import StoryTest
    from fathom.sim.world.world import World

SEED = "fathom_seed"
MARK = "world(menu, *, servers=1, scripted=(), checkers=tuple, scale=1): the faults of this test's world"


def _leave_fathom_as_it_is() -> None:
    """pytest rewrites the asserts of every module of a distribution that has a plugin: of fathom a thousand,
    in each process, and what is tested would not be what runs. There is no public way to say no."""
    for finder in sys.meta_path:
        marked = getattr(finder, "_must_rewrite", None)
        if isinstance(marked, set):
            marked.discard("fathom")


_leave_fathom_as_it_is()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fathom", "scenarios in a deterministic world")
    group.addoption(
        "--fathom-seeds", default="0..10", metavar="A..B", help="run each scenario with these seeds"
    )
    group.addoption(
        "--fathom-strategy",
        default="random",
        choices=("random", "pct", "lineage"),
        help="how faults are chosen (docs/simulation.md)",
    )
    group.addoption(
        "--fathom-runs", default=100, type=int, metavar="N", help="lineage: at most N runs per seed"
    )
    group.addoption(
        "--fathom-patch", metavar="FILE.py", help="a file that changes code, loaded before any test"
    )
    group.addoption("--fathom-shrink", action="store_true", help="shrink a failing run (up to a minute)")
    group.addoption(
        "--fathom-out", default=".fathom-failures", metavar="DIR", help="where failing runs are kept"
    )
    group.addoption("--fathom-replay", metavar="FILE", help="replay the run in this file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)
    patch = config.getoption("--fathom-patch")
    if patch:
        from fathom.sim.search.patches import BadPatch, load  # noqa: PLC0415

        try:
            load(Path(patch))
        except BadPatch as error:
            raise pytest.UsageError(str(error)) from error


def _seeds(config: pytest.Config) -> list[str]:
    from fathom.sim.search.seeds import BadSeeds, seeds_of  # noqa: PLC0415

    if config.getoption("--fathom-replay"):
        return ["replay"]
    try:
        return [str(seed) for seed in seeds_of(config.getoption("--fathom-seeds"))]
    except BadSeeds as error:
        raise pytest.UsageError(f"--fathom-seeds {error}") from error


# Scenarios collected as tests.


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[StoryTest] | None:
    """Collect a scenario only in the module that defines it: an imported one is a test elsewhere, or none."""
    if "fathom.sim.world.scenario" not in sys.modules:
        return None
    from fathom.sim.pytest_plugin.story_tests import StoryTest  # noqa: PLC0415
    from fathom.sim.world.scenario import Scenario  # noqa: PLC0415

    module = getattr(collector, "obj", None)
    if not isinstance(obj, Scenario) or obj.story.__module__ != getattr(module, "__name__", None):
        return None
    return [
        StoryTest.from_parent(collector, name=f"{name}[{seed}]", scenario=obj, seed=seed)
        for seed in _seeds(collector.config)
    ]


# Test functions that use the `world` fixture.


@pytest.fixture
def fathom_seed(request: pytest.FixtureRequest) -> str:
    """The seed of this run: every random choice follows from it."""
    return str(request.param)


@pytest.fixture
def world(fathom_seed: str) -> World:
    """A world for this test alone. The test must be an `async def`; it runs in virtual time."""
    from fathom.sim.pytest_plugin.story_tests import NotYet  # noqa: PLC0415

    return NotYet()  # type: ignore[return-value]  # The test gets the real one when it runs.


@pytest.fixture
def operator(fathom_seed: str) -> OperatorTest:
    """A cluster for this test alone, to test an operator in: docs/testing-your-operator.md. The test must be
    an `async def`; it runs in virtual time."""
    if find_spec("greenlet") is None:
        pytest.fail(
            "the fixture `operator` needs greenlet: pip install 'fathom-control[test]'", pytrace=False
        )
    from fathom.sim.pytest_plugin.story_tests import NotYet  # noqa: PLC0415

    return NotYet()  # type: ignore[return-value]  # The test gets the real one when it runs.


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if SEED in metafunc.fixturenames:
        metafunc.parametrize(SEED, _seeds(metafunc.config), indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if SEED not in pyfuncitem.fixturenames:
        return None
    from fathom.sim.pytest_plugin.story_tests import tell_test  # noqa: PLC0415

    tell_test(pyfuncitem)
    return True


# Failure reports and the terminal summary.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show only the run's own report; pytest's traceback adds nothing to it."""
    report = yield
    if "fathom.sim.pytest_plugin.story_tests" in sys.modules and call.excinfo is not None:
        from fathom.sim.pytest_plugin.story_tests import BrokenStory, StoryReport  # noqa: PLC0415

        if isinstance(call.excinfo.value, BrokenStory):
            report.longrepr = StoryReport(str(call.excinfo.value))
    return report


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if "fathom.sim.pytest_plugin.story_tests" not in sys.modules:
        return
    from fathom.sim.pytest_plugin.story_tests import ledger_of  # noqa: PLC0415

    lines = list(_summary(ledger_of(config)))
    if lines:
        terminalreporter.section("scenarios")
        for line in lines:
            terminalreporter.line(line)


def _summary(ledger: object) -> Iterator[str]:
    from fathom.sim.pytest_plugin.story_tests import Ledger  # noqa: PLC0415

    assert isinstance(ledger, Ledger)
    if ledger.summary.runs:
        yield ledger.line()
    for failure in ledger.failures:
        yield f"broken: {failure}"
