"""What every suite shares: which tests are live, deep runs only on request, tools that may be absent,
hypothesis' profiles, and a last line that says what was skipped and why."""

from __future__ import annotations

import gc
import re
import shutil
import signal
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests import process_watch

TESTS = Path(__file__).parent
# Every test there talks to a process. Elsewhere a module or a test says so itself.
LIVE_DIRECTORIES = frozenset({"bench", "chaos", "cli", "clients", "cluster", "replay", "security"})
SLOW_DIRECTORIES = frozenset({"sim"})  # Simulations: each is quick, all of them are not.

QUICK = "not live and not slow and not full"
MARKED_MODULE = re.compile(r"^pytestmark = .*\bpytest\.mark\.(live|slow|full)\b", re.MULTILINE)
DEEP_ONLY = "deep run: script/test --full"
DEEP_S_MAX = 1800  # Deep tests take minutes while both cores are busy with them.
NO_KUBECTL = "kubectl is not installed"

# A build on a loaded machine must not fail because an example was slow.
SLOW_IS_FINE = [HealthCheck.too_slow]
# The same examples every time: a red build is about the change, and a rerun shows the same failure.
settings.register_profile(
    "normal", max_examples=50, derandomize=True, deadline=None, suppress_health_check=SLOW_IS_FINE
)
settings.register_profile("quick", settings.get_profile("normal"), max_examples=15)
# New examples every time; a failure prints the blob that brings it back.
settings.register_profile(
    "deep", max_examples=1000, print_blob=True, deadline=None, suppress_health_check=SLOW_IS_FINE
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help=f"only what is {QUICK}, with fewer examples")
    parser.addoption("--full", action="store_true", help="also the deep runs (minutes, not seconds)")
    parser.addoption("--pictures", action="store_true", help="store pictures of the web page in docs/")


def pytest_configure(config: pytest.Config) -> None:
    process_watch.pytest_configure(config)
    # A shell that starts us in the background has us, and all that we start, ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A profile or seed given by hand wins; a seed means nothing to a derandomized profile.
    if not config.getoption("--hypothesis-profile"):
        deep = config.getoption("--full") or config.getoption("--hypothesis-seed") is not None
        settings.load_profile("deep" if deep else "quick" if config.getoption("--quick") else "normal")
    if config.getoption("--quick") and QUICK not in config.option.markexpr:
        config.option.markexpr = " and ".join(filter(None, (QUICK, config.option.markexpr)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A quick run does not import what it would leave out."""
    if not config.getoption("--quick"):
        return None
    if collection_path.suffix == ".py":
        return True if MARKED_MODULE.search(collection_path.read_text()) else None
    inside = LIVE_DIRECTORIES | SLOW_DIRECTORIES
    return True if collection_path.parent == TESTS and collection_path.name in inside else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """pytest keeps half a million objects as long as it runs: a garbage collection takes 0.3 s with them and
    next to nothing without, and a simulation collects at each death of a process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    kubectl_missing = shutil.which("kubectl") is None
    for item in items:
        for mark in _marks_of(item):
            item.add_marker(mark)
        if config.getoption("--full"):
            item.add_marker(pytest.mark.timeout(DEEP_S_MAX))
        elif item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(reason=DEEP_ONLY))
        if item.get_closest_marker("kubectl") and kubectl_missing:
            item.add_marker(pytest.mark.skip(reason=NO_KUBECTL))


def _marks_of(item: pytest.Item) -> Iterator[pytest.MarkDecorator]:
    directory = item.path.relative_to(TESTS).parts[0]
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if directory in LIVE_DIRECTORIES or (directory == "store" and "etcd" in given.values()):
        yield pytest.mark.live
    if directory in SLOW_DIRECTORIES:
        yield pytest.mark.slow


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The path of kubectl; a test that asks for it is skipped where there is none."""
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip(NO_KUBECTL)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How long after the proposed change each trouble was over: see tests/cluster/troubles.py."""
    measured = [
        value
        for report in terminalreporter.stats.get("passed", ())
        for name, value in report.user_properties
        if name == "ready_s" and report.when == "call"
    ]
    if measured:
        terminalreporter.section("as wanted, seconds after the proposed change")
    for trouble, seconds in sorted(measured, key=lambda row: -row[1]):
        terminalreporter.write_line(f"{seconds:6.1f}  {trouble}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """After pytest's own summary, so that the last line of a run says what it did not look at."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not reporter.stats:
        return
    counts = {
        name: len(reporter.stats.get(name, ()))
        for name in ("passed", "failed", "error", "skipped", "xfailed")
        if reporter.stats.get(name)
    }
    reasons = Counter(_reason(report) for report in reporter.stats.get("skipped", ()))
    why = "; ".join(f"{count} × {reason}" for reason, count in sorted(reasons.items()))
    line = ", ".join(f"{count} {name}" for name, count in counts.items())
    reporter.write_line(f"tests: {line}{f' ({why})' if why else ''}")


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
