"""Fails a test that starts a process and is not marked `live`, so that `script/test --quick` stays quick.

It looks at the two ways there are: `subprocess.Popen`, which asyncio uses too, and `os.fork`. An audit hook
would see more, but is called for every `id()` as well: simulations took 8 % longer.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator
from typing import Any

import pytest

ALLOWED = ("git",)  # Asked by the repository's own rules for its files; it takes milliseconds.
UNMARKED = "it starts {what} and is not marked: @pytest.mark.live, or pytestmark = pytest.mark.live"


class ProcessWatch:
    def __init__(self) -> None:
        self._watched = False  # Whether a test runs that is not marked.
        self._started: list[str] = []
        os.register_at_fork(before=lambda: self._note("a fork"))
        # mypy knows that a method is not assigned to.
        setattr(subprocess.Popen, "__init__", self._noting(subprocess.Popen.__init__))  # noqa: B010

    def _noting(self, begin: Callable[..., None]) -> Callable[..., None]:
        def noted(process: Any, args: Any, *more: Any, **options: Any) -> None:
            words = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
            if words[:1] != [*ALLOWED]:
                self._note(os.fsdecode(words[0]) if words else "a process")
            begin(process, args, *more, **options)

        return noted

    def _note(self, what: str) -> None:
        if self._watched:
            self._started.append(what)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._watched = item.get_closest_marker("live") is None
        try:
            return (yield)
        finally:
            self._watched = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """After setup, call and teardown alike: what fixtures start counts too."""
        report = yield
        if self._started and report.passed:
            report.outcome, report.longrepr = "failed", UNMARKED.format(what=self._started[0])
        self._started.clear()
        return report


def pytest_configure(config: pytest.Config) -> None:
    """For `-p tests.process_watch`."""
    config.pluginmanager.register(ProcessWatch())
