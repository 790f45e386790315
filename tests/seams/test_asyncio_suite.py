"""CPython's own asyncio tests on the Domain: locks, queues, task groups, timeouts, wait.

They prove that deciding code may use the standard primitives as they are.
"""

from __future__ import annotations

import asyncio
import importlib
import unittest
import warnings

import pytest
from tests.seams.stepping import SteppingDomain

SUITES = ("test_locks", "test_queues", "test_taskgroups", "test_timeouts", "test_waitfor")

# Each with the reason why it says nothing about the Domain.
NOT_ABOUT_US: dict[str, str] = {}


class _OnDomain(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return SteppingDomain()


@pytest.mark.parametrize("suite", SUITES)
def test_the_standard_primitives_behave_on_the_domain(suite: str) -> None:
    try:
        module = importlib.import_module(f"test.test_asyncio.{suite}")
    except ImportError:
        pytest.skip("this Python comes without its own test suite")
    result = unittest.TestResult()
    asyncio.set_event_loop_policy(_OnDomain())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
    finally:
        asyncio.set_event_loop_policy(None)
    broken = [(test.id(), trace) for test, trace in (*result.failures, *result.errors)]
    assert (broken, result.testsRun > 10) == ([], True)
